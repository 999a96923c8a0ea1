//go:build !linux

package solver

func adviseHuge([]byte) {}
