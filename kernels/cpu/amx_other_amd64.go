//go:build !linux

package cpu

// permitAMX: how other systems are asked is not known here.
func permitAMX() bool { return false }
