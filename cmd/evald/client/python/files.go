// Package python has the files of the Python package evald, for wheels, and its tests. README.md is for its users.
package python

import "embed"

// Files are those of the package, in the folder evald.
//
//go:embed evald/*.py evald/py.typed
var Files embed.FS
