//go:build cgo

package conv

const cgo = true
