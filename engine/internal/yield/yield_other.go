//go:build !js

// Package yield does nothing on this system, which handles events beside all work.
package yield

// ToEvents does nothing.
func ToEvents() {}
