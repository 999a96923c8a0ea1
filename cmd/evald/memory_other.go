//go:build !linux

package main

// machineMemory is how many bytes of memory there are; 0 where that is not known.
func machineMemory() uint64 { return 0 }
