//go:build !amd64

package bench

const hasVector = false

func spinVector(int) {}
