//go:build library

package main

import "C"

import (
	"os"
	"strings"
	"unsafe"

	"github.com/evald/evald/cmd/evald/internal/library"
)

// evald_call exports library.Calls to C, for -buildmode=c-shared. After an error the text at err describes it, in at most errSize bytes
// including the final zero. The caller allocates all arrays; package library gives their sizes.
const errSize = 2048

var calls = library.Calls{Version: version()}

// say writes an error to the caller's memory and returns its status.
func say(err error, into *C.char) C.int {
	text := err.Error()
	if len(text) >= errSize {
		text = strings.ToValidUTF8(text[:errSize-1], "")
	}
	if into != nil {
		to := unsafe.Slice((*byte)(unsafe.Pointer(into)), errSize)
		to[copy(to, text)] = 0
	}
	return C.int(library.Status(err))
}

//export evald_main
func evald_main(argc C.int, argv **C.char) C.int {
	os.Args = nil
	for _, arg := range unsafe.Slice(argv, int(argc)) {
		os.Args = append(os.Args, C.GoString(arg))
	}
	main() // which exits
	return 0
}

// evald_call makes the call of a name with its arguments in order (package library, table): numbers,
// and addresses of texts that end with a zero and of arrays. The argument after them is the address
// of memory for the text of an error, and the caller may leave out those after it: in the calling
// conventions of C, an argument that is missing is any number. It returns the call's result, or below
// 0 minus the status of an error.
//
//export evald_call
func evald_call(name *C.char, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16 C.longlong) C.longlong {
	all := [library.MostArguments + 1]int64{
		int64(a0), int64(a1), int64(a2), int64(a3), int64(a4), int64(a5), int64(a6), int64(a7),
		int64(a8), int64(a9), int64(a10), int64(a11), int64(a12), int64(a13), int64(a14), int64(a15), int64(a16),
	}
	result, into, err := calls.Call(C.GoString(name), all)
	if err != nil {
		return C.longlong(-say(err, (*C.char)(into)))
	}
	return C.longlong(result)
}
