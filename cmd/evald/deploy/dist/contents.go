package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zip"
)

// file is a file of an archive.
type file struct {
	name    string // with slashes
	mode    fs.FileMode
	content []byte
}

// sharedFiles returns the files that all archives have besides the program: documents, and texts that the program for this machine prints.
func sharedFiles(program string) ([]file, error) {
	var all []file
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name, 0o644, content})
	}
	for _, printed := range []struct {
		name string
		args []string
	}{
		{"completions/_evald", []string{"completion", "zsh"}},
		{"completions/evald.bash", []string{"completion", "bash"}},
		{"completions/evald.fish", []string{"completion", "fish"}},
		{"man/evald.1", []string{"man"}},
	} {
		content, err := exec.Command(program, printed.args...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s %v: %w", filepath.Base(program), printed.args, err)
		}
		all = append(all, file{printed.name, 0o644, content})
	}
	return all, nil
}

// writeArchive writes path.zip for Windows, and path.tar.gz for other systems. All files are in one folder with the archive's name.
func writeArchive(path string, r release, p platform, files []file) error {
	inside := make([]file, len(files))
	for i, f := range files {
		inside[i] = file{filepath.Base(path) + "/" + f.name, f.mode, f.content}
	}
	if p.system == "windows" {
		return writeZip(path+".zip", r, inside)
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	for _, f := range inside {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: r.time, Format: tar.FormatPAX})
		if err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		return err
	}
	return os.WriteFile(path+".tar.gz", out.Bytes(), 0o644)
}

func writeZip(path string, r release, files []file) error {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
