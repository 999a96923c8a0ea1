//go:build !page

package browser

var embedded Engine
