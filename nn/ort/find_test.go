package ort

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// script is an executable file that stands in for Python.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "python")
	gametest.OK(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755))
	return file
}

func touch(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		gametest.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		gametest.OK(t, os.WriteFile(name, []byte("no library"), 0o644))
	}
}

// The library is that which was asked for, or the variable's, or the package's of EVALD_PYTHON, or the system's.
func TestCandidates(t *testing.T) {
	site := filepath.Join(t.TempDir(), "a [b]*")
	wheel := filepath.Join(site, "onnxruntime/capi/libonnxruntime.so.1.31.1")
	touch(t, wheel)
	python := script(t, `echo '["/nowhere", "`+site+`"]'`)
	system := []candidate{{path: "libonnxruntime.so"}, {path: "libonnxruntime.so.1"}}
	for name, c := range map[string]struct {
		asked, env, python string
		want               []candidate
		missing            string
	}{
		"asked":          {"/x/lib.so", "/y", python, []candidate{{"/x/lib.so", "asked for"}}, ""},
		"variable":       {"", "/y", python, []candidate{{"/y", "EVALD_ORT_LIBRARY"}}, ""},
		"package":        {"", "", python, append([]candidate{{wheel, "EVALD_PYTHON"}}, system...), ""},
		"no package":     {"", "", script(t, `echo '["/nowhere"]'`), system, "has no package onnxruntime"},
		"no list":        {"", "", script(t, "echo hello"), system, `its answer is no list of folders: "hello\n"`},
		"fails":          {"", "", script(t, "echo some trouble >&2; exit 3"), system, "exit status 3 some trouble"},
		"no such python": {"", "", "/nowhere/python", system, "no such file or directory"},
		"none":           {"", "", "", system, "EVALD_PYTHON is not set"},
	} {
		t.Setenv("EVALD_ORT_LIBRARY", c.env)
		t.Setenv("EVALD_PYTHON", c.python)
		found, missing := candidates(c.asked)
		if !slices.Equal(found, c.want) || !strings.Contains(strings.Join(missing, "; "), c.missing) || (c.missing == "") != (missing == nil) {
			t.Errorf("%s: found %v, missing %q", name, found, missing)
		}
	}
}

// A Python that does not answer is given up.
func TestPythonTime(t *testing.T) {
	old := pythonTime
	pythonTime = 50 * time.Millisecond
	defer func() { pythonTime = old }()
	if _, err := packages(script(t, "exec sleep 60")); err == nil || err.Error() != "no answer within 50ms" {
		t.Errorf("error %v", err)
	}
}

// NVIDIA's libraries are those of the packages beside the library, those that others need first.
func TestProviderLibraries(t *testing.T) {
	site := t.TempDir()
	names := []string{
		"nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cu13/lib/libcublas.so.13", "nvidia/cudnn/lib/libcudnn.so.9",
		"tensorrt_libs/libnvinfer.so.10", "tensorrt_libs/libnvonnxparser.so.10",
	}
	for i := range names {
		names[i] = filepath.Join(site, names[i])
		touch(t, names[i])
	}
	touch(t, filepath.Join(site, "nvidia/cudnn/lib/libcudnn_ops.so.9"), filepath.Join(site, "nvidia/cu13/lib/libother.so.1"))
	library := filepath.Join(site, "onnxruntime/capi/libonnxruntime.so.1.31.1")
	if got := providerLibraries(library, false); !slices.Equal(got, names[:4]) {
		t.Errorf("for CUDA: %q", got)
	}
	if got := providerLibraries(library, true); !slices.Equal(got, names) {
		t.Errorf("for TensorRT: %q", got)
	}
	if got := providerLibraries("libonnxruntime.so", false); got != nil {
		t.Errorf("of the system: %q", got)
	}
}

// Errors of the library, as it gives them to us, and what users read.
func TestOneLine(t *testing.T) {
	const cudaCall = "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:154 std::conditional_t<THRW, void, onnxruntime::common::Status> onnxruntime::CudaCall(ERRTYPE, const char*, const char*, SUCCTYPE, const char*, const char*, int) [with ERRTYPE = cudaError; bool THRW = true; SUCCTYPE = cudaError; std::conditional_t<THRW, void, common::Status> = void] "
	for text, want := range map[string]string{
		"":                       "",
		"a\n b.":                 "a b",
		strings.Repeat("x", 500): strings.Repeat("x", 398) + "..",
		cudaCall + cudaCall + "CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=vm ; file=/onnxruntime_src/a.cc ; line=355 ; expr=cudaSetDevice(info_.device_id);":                                                                                                                                                             "CUDA failure 100: no CUDA-capable device is detected",
		`/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc:63 static onnxruntime::CUDAExecutionProviderInfo onnxruntime::CUDAExecutionProviderInfo::FromProviderOptions(const onnxruntime::ProviderOptions&) [ONNXRuntimeError] : 1 : FAIL : provider_options_utils.h:182 Parse Unknown provider option: "device_idd".`: `Unknown provider option: "device_idd"`,
		"Failed to load library a.so with error: libcublasLt.so.13 (x): y": "Failed to load library a.so with error: libcublasLt.so.13 (x): y",
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%s\nis shortened to %s", text, got)
		}
	}
}

func TestRemedy(t *testing.T) {
	const missing = "libcublasLt.so.13: cannot open shared object file: No such file or directory"
	for _, c := range []struct{ provider, text, want string }{
		{CUDA, "CUDA execution provider is not enabled in this build", "pip uninstall onnxruntime, then pip install 'onnxruntime-gpu[cuda,cudnn]'"},
		{CUDA, missing, "pip install 'onnxruntime-gpu[cuda,cudnn]'"},
		{TensorRT, "libnvinfer.so.10: cannot open shared object file", "pip install 'onnxruntime-gpu[cuda,cudnn]' 'tensorrt-cu13<11'"},
		{CUDA, "libcuda.so.1: cannot open shared object file", "install NVIDIA's driver"},
		{CUDA, `Unknown provider option: "a"`, ""},
		{"XNNPACK", "XNNPACK execution provider is not supported in this build", ""},
	} {
		if got := remedy(c.provider, c.text); got != c.want {
			t.Errorf("%s: %s: %q", c.provider, c.text, got)
		}
	}
}
