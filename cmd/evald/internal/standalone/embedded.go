//go:build page

package standalone

import _ "embed"

//go:embed built/evald.wasm.gz
var embeddedWasm []byte

//go:embed built/wasm_exec.js
var embeddedExec []byte

// embedded is the engine of programs with the tag page, which make dist builds.
var embedded = Engine{embeddedWasm, embeddedExec}
