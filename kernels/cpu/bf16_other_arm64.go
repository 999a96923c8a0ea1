//go:build !linux && !darwin

package cpu

// hasBF16 is false, because it is not known how to ask other systems.
func hasBF16() bool { return false }
