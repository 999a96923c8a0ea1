//go:build cgo && linux && (amd64 || arm64)

package ort

// #cgo LDFLAGS: -ldl -lpthread
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/evald/evald/nn/onnx"
)

// Supported reports whether this program can open ONNX Runtime.
const Supported = true

// oldest is the oldest supported version of ONNX Runtime, 1.oldest.
const oldest = 16

// Library is ONNX Runtime's library. It is opened once and stays open until the program ends.
type Library struct {
	Path    string // path, or the name with which the system's loader found it
	From    string // what named the path: "asked for", "EVALD_ORT_LIBRARY" or "EVALD_PYTHON"; "" for the system's loader
	Version string // such as "1.31.1"

	c       *C.ort_library
	api     int
	mu      sync.Mutex // guards the fields below; held while a provider is loaded
	plugins []string   // registered plugins
	opened  []string   // NVIDIA's libraries that were opened
}

// libraries maps paths and arguments of Open to the open libraries, so that Python runs only once.
var libraries = struct {
	sync.Mutex
	open  map[string]*Library
	found map[[3]string]*Library
}{open: map[string]*Library{}, found: map[[3]string]*Library{}}

// Open opens the library that Options.Library names, or else the variable EVALD_ORT_LIBRARY, or else that of the package onnxruntime in the
// Python that EVALD_PYTHON names, or else the system's. The error lists the places that were tried, why each failed, and what the user can
// do.
func Open(o Options) (*Library, error) {
	libraries.Lock()
	defer libraries.Unlock()
	asked := [3]string{o.Library, os.Getenv("EVALD_ORT_LIBRARY"), os.Getenv("EVALD_PYTHON")}
	if l := libraries.found[asked]; l != nil {
		return l, nil
	}
	found, failed := candidates(o.Library)
	for _, c := range found {
		l, err := open(c)
		if err == nil {
			libraries.found[asked] = l
			return l, nil
		}
		text := strings.TrimPrefix(err.Error(), c.path+": ")
		if c.from != "" {
			text = c.from + ": " + text
		}
		failed = append(failed, c.path+": "+text)
	}
	return nil, fmt.Errorf("ONNX Runtime's library was not found (%s): run pip install onnxruntime and set EVALD_PYTHON to that Python, or EVALD_ORT_LIBRARY to the path of libonnxruntime.so",
		strings.Join(failed, "; "))
}

// open opens a library unless it is already open. The caller must hold the lock of libraries.
func open(from candidate) (*Library, error) {
	if l := libraries.open[from.path]; l != nil {
		return l, nil
	}
	l := &Library{Path: from.path, From: from.from}
	path := C.CString(from.path)
	defer C.free(unsafe.Pointer(path))
	if err := failure(C.ort_open(path, oldest, &l.c)); err != nil {
		return nil, err
	}
	l.Version, l.api = C.GoString(C.ort_version(l.c)), int(C.ort_api(l.c))
	libraries.open[from.path] = l
	return l, nil
}

// Providers returns the names of the providers that are built into the library, and of those of registered plugins. Dependencies of a
// built-in provider may still be missing.
func (l *Library) Providers() []string {
	text := C.ort_providers(l.c)
	defer C.free(unsafe.Pointer(text))
	names := strings.Fields(C.GoString(text))
	slices.Sort(names)
	return slices.Compact(names)
}

// String returns a text such as "ONNX Runtime 1.31.1".
func (l *Library) String() string { return "ONNX Runtime " + l.Version }

// failure converts an error of the shim, and frees its text.
func failure(text C.ort_error) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return errors.New(oneLine(C.GoString(text)))
}

// logged returns the last error that the library has logged since the previous call, as one line, or "".
func (l *Library) logged() string {
	text := C.ort_log(l.c)
	defer C.free(unsafe.Pointer(text))
	return oneLine(C.GoString(text))
}

// inspect reads a model without preparing to run it. If the library cannot run the model, the error says why.
func (l *Library) inspect(m Model) (s Signature, err error) {
	if _, err := onnx.Read(m.Data); err != nil {
		return s, err
	}
	options, err := l.options(1)
	if err != nil {
		return s, err
	}
	defer l.freeOptions(options)
	if err := failure(C.ort_options_basic(l.c, options)); err != nil {
		return s, err
	}
	session, err := l.session(options, m)
	if err != nil {
		return s, err
	}
	defer C.ort_session_free(l.c, session)
	if s.Inputs, err = l.ports(session, 0); err != nil {
		return s, err
	}
	if s.Outputs, err = l.ports(session, 1); err != nil {
		return s, err
	}
	s.Metadata, err = l.metadata(session)
	return s, err
}

func (l *Library) options(threads int) (options unsafe.Pointer, err error) {
	err = failure(C.ort_options_new(l.c, C.int(threads), &options))
	return options, err
}

func (l *Library) freeOptions(options unsafe.Pointer) { C.ort_options_free(l.c, options) }

// session makes a session of a model. The library copies the parts of the file that it needs.
func (l *Library) session(options unsafe.Pointer, m Model) (session unsafe.Pointer, err error) {
	err = failure(C.ort_session_new(l.c, options, unsafe.Pointer(&m.Data[0]), C.size_t(len(m.Data)), &session))
	return session, err
}

func (l *Library) ports(session unsafe.Pointer, output C.int) (ports []Port, err error) {
	var n C.size_t
	if err := failure(C.ort_ports(l.c, session, output, &n)); err != nil {
		return nil, err
	}
	for i := range n {
		p, err := l.port(session, output, i)
		if err != nil {
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

func (l *Library) port(session unsafe.Pointer, output C.int, i C.size_t) (p Port, err error) {
	var c C.ort_port
	err = failure(C.ort_port_get(l.c, session, output, i, &c))
	p.Name, p.Type = C.GoString(c.name), Type(c._type)
	C.free(unsafe.Pointer(c.name))
	if c.rank >= 0 {
		p.Shape = make([]Dim, c.rank)
	}
	for k := range p.Shape {
		p.Shape[k] = Dim{max(-1, int64(c.dims[k])), C.GoString(c.dim_names[k])}
		C.free(unsafe.Pointer(c.dim_names[k]))
	}
	return p, err
}

func (l *Library) metadata(session unsafe.Pointer) (map[string]string, error) {
	var n C.size_t
	var keys, values **C.char
	err := failure(C.ort_metadata(l.c, session, &n, &keys, &values))
	all := map[string]string{}
	k, v := unsafe.Slice(keys, n), unsafe.Slice(values, n)
	for i := range k {
		all[C.GoString(k[i])] = C.GoString(v[i])
		C.free(unsafe.Pointer(k[i]))
		C.free(unsafe.Pointer(v[i]))
	}
	C.free(unsafe.Pointer(keys))
	C.free(unsafe.Pointer(values))
	return all, err
}
