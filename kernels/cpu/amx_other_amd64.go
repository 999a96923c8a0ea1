//go:build !linux

package cpu

// permitAMX is false: there is no code to ask other systems.
func permitAMX() bool { return false }
