//! A world in a box: a simulated object store with faults and crash points, a virtual clock and a seeded scheduler.
