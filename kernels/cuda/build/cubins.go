package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

const cubinsFile = "ptx/cubins.tar.zst"

// machines are the architectures that machine code is for. That of 8.0 runs on every later 8.x, and so on; Hopper's has the
// instructions of 9.0 alone.
var machines = []string{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"}

// writeCubins assembles all modules into one archive. The files that people are likely to have differ little from each other:
// together they take a fifth of what they take one by one.
func writeCubins(ptxas string) error {
	var all bytes.Buffer
	out, err := zstd.NewWriter(&all, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	files := tar.NewWriter(out)
	add := func(name string, content []byte) error {
		if err := files.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err := files.Write(content)
		return err
	}
	for _, m := range modules {
		sum, err := hashOf(m.name)
		if err != nil {
			return err
		}
		if err := add(m.name+".sha256", []byte(sum)); err != nil {
			return err
		}
		for _, arch := range m.machines() {
			cubin, err := m.assemble(ptxas, arch)
			if err != nil {
				return err
			}
			if err := add(m.name+"."+arch, cubin); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(files.Close(), out.Close()); err != nil {
		return err
	}
	return os.WriteFile(cubinsFile, all.Bytes(), 0o644)
}

// machines are those that the module's PTX can be assembled for.
func (m module) machines() []string {
	if len(m.archs) == 1 {
		return m.archs
	}
	return machines
}

// hashOf is the hash of a module's PTX.
func hashOf(module string) (string, error) {
	ptx, err := os.ReadFile(ptxFile(module))
	return fmt.Sprintf("%x", sha256.Sum256(ptx)), err
}

// assemble is the machine code of a module. The same ptxas gives the same bytes.
func (m module) assemble(ptxas, arch string) ([]byte, error) {
	folder, err := os.MkdirTemp("", "evald-cubin")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "cubin")
	if out, err := exec.Command(ptxas, "-arch="+arch, ptxFile(m.name), "-o", path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ptxas -arch=%s %s: %w\n%s", arch, ptxFile(m.name), err, out)
	}
	return os.ReadFile(path)
}
