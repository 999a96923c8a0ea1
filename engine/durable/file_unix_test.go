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

// A file is written through symbolic links, also if it does not exist yet, and links in a circle
// are an error.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for link, to := range map[string]string{
		"absolute": in("there"), "relative": "there", "second": "relative", "dangling": "far/new", "up": "near/../new", "near": "far/deep", "round": "circle", "circle": "round",
	} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(in("far/deep"), 0o755), os.WriteFile(in("there"), nil, 0o640)); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"absolute": "there", "relative": "there", "second": "there", "dangling": "far/new", "up": "far/new"} {
		if err := durable.WriteFile(in(link), []byte("by "+link)); err != nil {
			t.Error(err)
			continue
		}
		if info, err := os.Lstat(in(link)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("the link %s was replaced: %v", link, err)
		}
		if got := read(t, in(target)); got != "by "+link {
			t.Errorf("%s: %s has %q", link, target, got)
		}
	}
	if info, err := os.Stat(in("there")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
	err := durable.WriteFile(in("circle"), []byte("x"))
	if err == nil || !strings.Contains(err.Error(), in("circle")+": follows more than 40 symbolic links") && !strings.Contains(err.Error(), "too many") {
		t.Errorf("a circle: %v", err)
	}
	left, err := filepath.Glob(in(".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
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
