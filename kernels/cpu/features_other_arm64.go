//go:build !linux && !darwin

package cpu

// has is false, because it is not known how to ask other systems.
func has(feature) bool { return false }
