//go:build unix

package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evald/evald/engine/durable"
)

// If a file cannot be written, the error has the name that was given, and what is there stays as it is.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	trap, lock, victim, pipe := filepath.Join(dir, "trap"), filepath.Join(dir, "lock"), filepath.Join(dir, "victim"), filepath.Join(dir, "pipe")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o644), os.WriteFile(victim, []byte("mine"), 0o644), os.Symlink(victim, filepath.Join(dir, ".trap.evald-new")),
		os.Symlink(victim, filepath.Join(dir, ".lock.evald-lock"))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                             "is not a regular file",
		pipe:                            "is not a regular file",
		filepath.Join(dir, "none", "x"): "no such file",
		trap:                            ".trap.evald-new is in the way: remove it",
		lock:                            ".lock.evald-lock is in the way: remove it",
		filepath.Join(victim, "x"):      "not a directory",
		filepath.Join(dir, "nul\x00"):   "invalid argument",
		strings.Repeat("x", 300):        "file name too long",
	} {
		err := durable.WriteFile(path, []byte("x"))
		var named *fs.PathError
		if !errors.As(err, &named) || named.Path != path || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", path, err, want)
		}
	}
	if got := read(t, victim); got != "mine" {
		t.Errorf("the file behind a link is %q", got)
	}
}

// A secret can be read by its owner alone, from the first byte on.
func TestWriteSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := durable.WriteSecretIn(durable.OS, path, []byte("word")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || read(t, path) != "word" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
