//go:build !race

package gametest

// Race reports whether the race detector is on. It makes pools drop items, so that allocations cannot be counted.
const Race = false
