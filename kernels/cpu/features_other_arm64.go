//go:build !linux && !darwin

package cpu

// has is false: there is no code to ask other systems.
func has(feature) bool { return false }
