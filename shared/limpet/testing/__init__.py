"""Small named fakes that ship with the library: virtual time, seeded chance, death on cue, disks that lie, a web in memory."""
