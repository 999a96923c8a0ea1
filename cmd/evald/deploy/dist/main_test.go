package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// TestMain runs the tests where make dist runs, in the root of the repository. As a program of an archive this test says its name.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"version"}) {
		fmt.Println("evald in a test")
		os.Exit(0)
	}
	if err := os.Chdir("../../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var example = release{"1.2.3", time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}

func TestVersions(t *testing.T) {
	commit := strings.Repeat("0123456789", 4)
	for _, c := range []struct {
		tags            []string
		changed         bool
		version, python string
	}{
		{nil, false, "0.0.0-dev+g012345678901", "0.0.0.dev0+g012345678901"},
		{nil, true, "0.0.0-dev+g012345678901.dirty", "0.0.0.dev0+g012345678901.dirty"},
		{[]string{"v1.2.3"}, false, "1.2.3", "1.2.3"},
		{[]string{"v1.2.3"}, true, "0.0.0-dev+g012345678901.dirty", "0.0.0.dev0+g012345678901.dirty"},
		{[]string{"vintage", "v1.2", "v0.10.0", "v0.9.0"}, false, "0.10.0", "0.10.0"},
	} {
		version := versionOf(commit, c.tags, c.changed)
		if version != c.version || pythonVersion(version) != c.python {
			t.Errorf("%v, changed %v: %s and %s, want %s and %s", c.tags, c.changed, version, pythonVersion(version), c.version, c.python)
		}
	}
}

// A wheel's tag follows from its system, and on Linux from the C library that its file needs.
func TestWheelTags(t *testing.T) {
	self := gametest.Must(os.Executable())(t)
	for p, want := range map[platform]string{
		{"linux", runtime.GOARCH}: `^manylinux_2_(1[7-9]|[2-9]\d)_(x86_64|aarch64)$`,
		{"darwin", "arm64"}:       `^macosx_12_0_arm64$`,
		{"windows", "amd64"}:      `^win_amd64$`,
	} {
		if p.system == "linux" && runtime.GOOS != "linux" {
			continue
		}
		if tag, err := wheelTag(p, self); err != nil || !regexp.MustCompile(want).MatchString(tag) {
			t.Errorf("%v: %s, %v; want %s", p, tag, err, want)
		}
	}
}

var here = platform{runtime.GOOS, runtime.GOARCH}

// The same programs give the same bytes. Here they are this test.
func TestSameBytes(t *testing.T) {
	if gametest.Race {
		t.Skip("one goroutine packs, and the run without the race detector tests the same")
	}
	program := gametest.Must(os.Executable())(t)
	shared := []file{{"README.md", 0o644, []byte("text")}, {"man/evald.1", 0o644, []byte("more text")}}
	folder := ""
	var sums [2]string
	for i := range sums {
		folder = t.TempDir()
		for _, p := range []platform{here, {"windows", "amd64"}} {
			gametest.OK(t, pack(folder, example, p, program, shared))
		}
		gametest.OK(t, writeChecksums(folder))
		text := gametest.Must(os.ReadFile(filepath.Join(folder, "SHA256SUMS")))(t)
		sums[i] = string(text)
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 4 {
		t.Errorf("want the same sums of an archive and a list of modules for each of 2 platforms:\n%s\n%s", sums[0], sums[1])
	}
	z := gametest.Must(zip.OpenReader(only(t, filepath.Join(folder, "*-windows-amd64.zip"))))(t)
	defer z.Close()
	if first := z.File[0]; first.Name != "evald-1.2.3-windows-amd64/evald.exe" || first.Mode() != 0o755 || !first.Modified.Equal(example.time) {
		t.Errorf("the zip begins with %s, %v, %v", first.Name, first.Mode(), first.Modified)
	}
}

// The program of the archive starts, which is this test, because the whole one takes seconds to compress. evald's list of modules is whole.
func TestPack(t *testing.T) {
	program, folder := whole(t), t.TempDir()
	shared, self := gametest.Must(sharedFiles(program))(t), gametest.Must(os.Executable())(t)
	gametest.OK(t, pack(folder, example, here, self, shared))
	t.Run("archive", func(t *testing.T) { testArchive(t, folder) })
	t.Run("modules", func(t *testing.T) { testModules(t, program) })
}

// whole is the program that EVALD_PROGRAM names, or else one that is built.
func whole(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("packs the whole program")
	}
	if path := os.Getenv("EVALD_PROGRAM"); path != "" {
		return path
	}
	program := filepath.Join(t.TempDir(), "evald")
	if out, err := exec.Command("go", "build", "-ldflags=-X main.release=v"+example.version, "-o", program, "./cmd/evald").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(program, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "evald v"+example.version+" ") {
		t.Errorf("evald version: %v\n%swant %s", err, out, example.version)
	}
	return program
}

// only returns the one file with this pattern.
func only(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v, %v, want one", pattern, files, err)
	}
	return files[0]
}

func testArchive(t *testing.T, folder string) {
	if runtime.GOOS == "windows" {
		t.Skip("the archive for this system is a zip")
	}
	f := gametest.Must(os.Open(only(t, filepath.Join(folder, "*.tar.gz"))))(t)
	defer f.Close()
	expanded := gametest.Must(gzip.NewReader(f))(t)
	program := filepath.Join(t.TempDir(), "evald")
	var names []string
	for r := tar.NewReader(expanded); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		gametest.OK(t, err)
		names = append(names, h.Name)
		content, err := io.ReadAll(r)
		if err != nil || len(content) == 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(example.time) {
			t.Errorf("%s: %d bytes, %v, of user %d %q, group %d, at %v", h.Name, len(content), err, h.Uid, h.Uname, h.Gid, h.ModTime)
		}
		if filepath.Base(h.Name) == "evald" {
			gametest.OK(t, os.WriteFile(program, content, os.FileMode(h.Mode)))
		}
	}
	inside := strings.ReplaceAll(strings.Join(names, " "), fmt.Sprintf("evald-1.2.3-%s-%s/", here.system, here.processor), "")
	if want := "evald CHANGELOG.md LICENSE README.md completions/_evald completions/evald.bash completions/evald.fish man/evald.1"; inside != want {
		t.Errorf("the archive has %s, want %s in a folder with its name", inside, want)
	}
	if out, err := exec.Command(program, "version").CombinedOutput(); err != nil || string(out) != "evald in a test\n" {
		t.Errorf("evald version: %v\n%s", err, out)
	}
}

// The list of modules has those of go.mod that the program imports, with their versions.
func testModules(t *testing.T, program string) {
	text := gametest.Must(sbom(example, program))(t)
	var bom struct {
		BOMFormat  string
		Components []struct {
			Name, Version, PURL string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(text, &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("%v, format %q", err, bom.BOMFormat)
	}
	info := gametest.Must(buildinfo.ReadFile(program))(t)
	tags := ""
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			tags = s.Value
		}
	}
	out := gametest.Must(exec.Command("go", "list", "-tags", tags, "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/evald").Output())(t)
	missing := map[string]bool{"std " + strings.TrimPrefix(runtime.Version(), "go"): true}
	for m := range strings.Lines(string(out)) {
		missing[strings.TrimSpace(m)] = true
	}
	delete(missing, "")
	if len(missing) < 20 {
		t.Errorf("go list names %d modules", len(missing))
	}
	for _, c := range bom.Components {
		if !missing[c.Name+" "+c.Version] {
			t.Errorf("%s %s is there and in no package, or twice", c.Name, c.Version)
		}
		delete(missing, c.Name+" "+c.Version)
		if c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%s: hashes %v", c.Name, c.Hashes)
		}
	}
	if len(missing) > 0 {
		t.Errorf("missing: %v", missing)
	}
}
