package standalone

import (
	"fmt"
	"os"
	"path/filepath"
)

// Engine is the engine for browsers, as make page builds it.
type Engine struct {
	Wasm []byte // package wasm, compiled and then compressed by gzip
	Exec []byte // Go's wasm_exec.js of the same version
}

// names of an engine's files.
const (
	wasmFile = "evald.wasm.gz"
	execFile = "wasm_exec.js"
)

// ReadEngine reads the engine from a folder, or returns the one that is part of this program if
// folder is "".
func ReadEngine(folder string) (e Engine, err error) {
	if folder == "" {
		if len(embedded.Wasm) == 0 {
			return e, fmt.Errorf("this program has no engine for browsers: run make page, or name a folder with one")
		}
		return embedded, nil
	}
	if e.Wasm, err = os.ReadFile(filepath.Join(folder, wasmFile)); err != nil {
		return e, err
	}
	e.Exec, err = os.ReadFile(filepath.Join(folder, execFile))
	return e, err
}
