//go:build !linux

package cpu

// permitAMX is false, because it is not known how to ask other systems.
func permitAMX() bool { return false }
