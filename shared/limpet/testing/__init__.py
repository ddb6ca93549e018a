"""Small named fakes that ship with the library: virtual time, seeded chance, death on cue, lying disks, a fake web."""
