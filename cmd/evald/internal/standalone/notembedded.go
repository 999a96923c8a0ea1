//go:build !page

package standalone

var embedded Engine
