//go:build !race

package gametest

// Race says that the race detector is on; it makes pools forget, so that allocations cannot be counted.
const Race = false
