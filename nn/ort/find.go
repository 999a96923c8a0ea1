package ort

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/short"
)

// candidate is a possible library, and what named it.
type candidate struct {
	path string // a path with a slash, or a name for the system's loader
	from string // as Library.From; "" for the system's loader
}

// candidates returns the libraries in the order in which Open tries them and, for the error, the places that contain none.
func candidates(asked string) (found []candidate, missing []string) {
	if asked != "" {
		return []candidate{{absolute(asked), "asked for"}}, nil
	}
	if env := os.Getenv("EVALD_ORT_LIBRARY"); env != "" {
		return []candidate{{absolute(env), "EVALD_ORT_LIBRARY"}}, nil
	}
	switch python := os.Getenv("EVALD_PYTHON"); python {
	case "":
		missing = append(missing, "EVALD_PYTHON is not set")
	default:
		folders, err := packages(python)
		if err != nil {
			missing = append(missing, fmt.Sprintf("EVALD_PYTHON=%s: %v", python, err))
			break
		}
		paths := wheels(folders)
		if len(paths) == 0 {
			missing = append(missing, fmt.Sprintf("EVALD_PYTHON=%s has no package onnxruntime", python))
		}
		for _, p := range paths {
			found = append(found, candidate{p, "EVALD_PYTHON"})
		}
	}
	return append(found, candidate{path: "libonnxruntime.so"}, candidate{path: "libonnxruntime.so.1"}), missing
}

// absolute turns a name into a path, so that the system's loader does not search for it.
func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// packages returns the folders from which a Python imports. Python must answer within pythonTime.
func packages(python string) (folders []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), pythonTime)
	defer cancel()
	c := exec.CommandContext(ctx, python, "-c", "import json, sys; print(json.dumps([p for p in sys.path if p]))")
	c.WaitDelay = time.Second // for child processes that keep its output open
	var said short.Tail
	c.Stderr = &said
	out, err := c.Output()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no answer within %v", pythonTime)
	case err != nil:
		return nil, fmt.Errorf("%w %s", err, said.LastLine())
	}
	if err := json.Unmarshal(out, &folders); err != nil {
		return nil, fmt.Errorf("its answer is no list of folders: %s", short.Quote(string(out)))
	}
	return folders, nil
}

// pythonTime is a variable so that tests can change it.
var pythonTime = 10 * time.Second

// wheels returns the libraries of the packages onnxruntime, onnxruntime-gpu and similar ones in the folders.
func wheels(folders []string) (paths []string) {
	for _, folder := range folders {
		some, _ := filepath.Glob(filepath.Join(quoteGlob(folder), "onnxruntime", "capi", "libonnxruntime.so*"))
		paths = append(paths, some...)
	}
	return paths
}

var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

func quoteGlob(folder string) string { return globEscaper.Replace(folder) }

// nvidia lists NVIDIA's libraries in the order of their dependencies. Once a library is opened by path, libraries that depend on it find it
// by name.
var nvidia = []string{
	"libnvJitLink.so", "libcudart.so", "libnvrtc.so", "libcublasLt.so", "libcublas.so", "libcufft.so", "libcurand.so", "libcudnn.so",
}

// tensorRT lists the libraries of the package tensorrt.
var tensorRT = []string{"libnvinfer.so", "libnvinfer_plugin.so", "libnvonnxparser.so"}

// providerLibraries returns the paths of NVIDIA's libraries in the Python packages beside the library, in the order in which they
// must be opened. It returns none if the library is not in a Python package, or if there are no such packages.
func providerLibraries(library string, tensorrt bool) (paths []string) {
	site := filepath.Dir(filepath.Dir(filepath.Dir(library))) // of onnxruntime/capi/libonnxruntime.so
	names, folders := nvidia, []string{filepath.Join(quoteGlob(site), "nvidia", "*", "lib")}
	if tensorrt {
		names, folders = slices.Concat(nvidia, tensorRT), append(folders, filepath.Join(quoteGlob(site), "tensorrt_libs"))
	}
	for _, name := range names {
		for _, folder := range folders {
			some, _ := filepath.Glob(filepath.Join(folder, name+".*"))
			paths = append(paths, some...)
		}
	}
	return paths
}

// remedy returns advice for a provider's error, or "" if there is none.
func remedy(provider, text string) string {
	packages := map[string]string{CUDA: "'onnxruntime-gpu[cuda,cudnn]'", TensorRT: "'onnxruntime-gpu[cuda,cudnn]' 'tensorrt-cu13<11'"}[provider]
	switch {
	case packages == "":
		return ""
	case strings.Contains(text, "not enabled in this build"):
		return "pip uninstall onnxruntime, then pip install " + packages
	case strings.HasPrefix(text, "libcuda.so"):
		return "install NVIDIA's driver"
	case strings.Contains(text, "cannot open shared object file"):
		return "pip install " + packages
	}
	return ""
}

// oneLine shortens a text of the library to one line. It removes the source locations at the beginning, and the details of CUDA failures at
// the end.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for {
		end := sourcePlace.FindStringIndex(text)
		if end == nil {
			break
		}
		text = text[:end[0]] + text[end[1]:]
	}
	text, _, _ = strings.Cut(text, " ; GPU=")
	return short.To(strings.TrimRight(text, ". "), 400)
}

// sourcePlace matches a location in the library's source: file, line and function, with the parameters if the file has its
// folder; or the library's name and error code.
var sourcePlace = regexp.MustCompile(`/\S+\.\w+:\d+ [^()]*\([^()]*(?:\([^()]*\)[^()]*)*\)(?: const)?(?: \[with [^\]]*\])?:? ` +
	`|\b\w+\.(?:h|cc|cpp):\d+ [\w:]+ ` +
	`|\[ONNXRuntimeError\] : \d+ : \w+ : `)
