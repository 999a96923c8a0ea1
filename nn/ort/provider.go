//go:build cgo && linux && (amd64 || arm64)

package ort

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/evald/evald/engine/durable"
)

// libraryNames contains the providers' names in the library's messages and file names.
var libraryNames = map[string]string{CUDA: "CUDA", TensorRT: "TensorRT"}

// addProvider adds the provider to a session's options. engines is the folder for TensorRT's engines, or "". If the provider cannot be
// loaded, the error names the missing library and how to install it.
func (l *Library) addProvider(options unsafe.Pointer, o Options, engines string) error {
	if o.onCPU() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	settings := maps.Clone(o.Settings)
	if engines != "" {
		settings = map[string]string{"trt_engine_cache_enable": "1", "trt_engine_cache_path": engines}
		maps.Copy(settings, o.Settings)
	}
	name := cmp.Or(libraryNames[o.provider()], o.Provider)
	if err := l.append(options, name, settings, o.Plugin); err != nil {
		return l.refused(o.provider(), err)
	}
	if o.provider() != TensorRT {
		return nil
	}
	// On the same device, CUDA computes the operators that TensorRT lacks.
	device := map[string]string{}
	if d, ok := o.Settings["device_id"]; ok {
		device["device_id"] = d
	}
	if err := l.append(options, libraryNames[CUDA], device, ""); err != nil {
		return l.refused(CUDA, err)
	}
	return nil
}

// refused returns an error that the provider cannot be used, with advice.
func (l *Library) refused(provider string, err error) error {
	if way := remedy(provider, err.Error()); way != "" {
		return fmt.Errorf("provider %s of %v cannot be used: %w (%s)", provider, l, err, way)
	}
	return fmt.Errorf("provider %s of %v cannot be used: %w", provider, l, err)
}

// append adds one provider to the session's options. If this fails, the error names the missing library. l.mu is held.
func (l *Library) append(options unsafe.Pointer, name string, settings map[string]string, plugin string) error {
	builtIn := name == libraryNames[CUDA] || name == libraryNames[TensorRT]
	if plugin != "" {
		if err := l.register(plugin); err != nil {
			return err
		}
	} else if builtIn {
		l.preload(name)
	}
	l.logged()
	keys, values := slices.Sorted(maps.Keys(settings)), []string{}
	for _, k := range keys {
		values = append(values, settings[k])
	}
	cName, cKeys, cValues := C.CString(name), texts(keys), texts(values)
	defer C.free(unsafe.Pointer(cName))
	defer freeTexts(cKeys, len(keys))
	defer freeTexts(cValues, len(keys))
	add := func() error {
		if plugin != "" {
			return failure(C.ort_options_plugin(l.c, options, cName, cKeys, cValues, C.size_t(len(keys))))
		}
		return failure(C.ort_options_provider(l.c, options, cName, cKeys, cValues, C.size_t(len(keys))))
	}
	err := add()
	if err == nil {
		return nil
	}
	log := l.logged()
	if missing := l.missing(name); builtIn && missing != "" {
		return errors.New(missing)
	}
	if log != "" && !strings.Contains(err.Error(), log) {
		return fmt.Errorf("%w (%s)", err, log)
	}
	return err
}

// missing returns the reason why a provider's library beside ONNX Runtime cannot be opened, or "" if it can be opened or does not exist.
// l.mu is held.
func (l *Library) missing(name string) string {
	file := filepath.Join(filepath.Dir(l.Path), "libonnxruntime_providers_"+strings.ToLower(name)+".so")
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	if err := openGlobal(file); err != nil {
		return strings.TrimPrefix(err.Error(), file+": ")
	}
	return ""
}

// preload opens NVIDIA's libraries in the Python packages beside ONNX Runtime, so that the provider finds them. It ignores failures: either
// the system's loader finds those libraries, or the provider reports an error. l.mu is held.
func (l *Library) preload(name string) {
	for _, file := range providerLibraries(l.Path, name == libraryNames[TensorRT]) {
		if !slices.Contains(l.opened, file) && openGlobal(file) == nil {
			l.opened = append(l.opened, file)
		}
	}
}

// openGlobal opens a library so that all libraries of the process can use its symbols.
func openGlobal(file string) error {
	path := C.CString(file)
	defer C.free(unsafe.Pointer(path))
	return failure(C.ort_preload(path))
}

// register registers the providers of a plugin library once. l.mu is held.
func (l *Library) register(plugin string) error {
	plugin = absolute(plugin)
	if slices.Contains(l.plugins, plugin) {
		return nil
	}
	if l.api < pluginAPI {
		return fmt.Errorf("plugin %s: plugins need ONNX Runtime 1.%d or newer", plugin, pluginAPI)
	}
	path := C.CString(plugin)
	defer C.free(unsafe.Pointer(path))
	if err := failure(C.ort_register(l.c, path, path)); err != nil {
		return fmt.Errorf("plugin %s: %w", plugin, err)
	}
	l.plugins = append(l.plugins, plugin)
	return nil
}

// pluginAPI is the first API version that supports plugins.
const pluginAPI = 22

// texts returns C strings, which the caller must free with freeTexts.
func texts(list []string) **C.char {
	memory := (**C.char)(C.calloc(C.size_t(len(list)+1), C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	for i, s := range list {
		unsafe.Slice(memory, len(list))[i] = C.CString(s)
	}
	return memory
}

func freeTexts(memory **C.char, n int) {
	for _, s := range unsafe.Slice(memory, n) {
		C.free(unsafe.Pointer(s))
	}
	C.free(unsafe.Pointer(memory))
}

// enginesFolder returns the folder for the engines that TensorRT builds for a model and the shape of a batch. Building an engine takes
// seconds to minutes, and an engine depends on the library and the shape. TensorRT adds the GPU and its own version to the file names.
func (l *Library) enginesFolder(m Model, shape string) (string, error) {
	cache, err := durable.CacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(m.Data)
	folder := filepath.Join(cache, "tensorrt", "onnxruntime-"+l.Version, hex.EncodeToString(sum[:8]), shape)
	return folder, os.MkdirAll(folder, 0o777)
}
