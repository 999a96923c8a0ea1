// Command dist writes all files of a release into the folder dist, on one machine for all systems. make dist runs it in the root of the
// repository:
//
//	main.go      the platforms, the version, the builds, the checksums
//	contents.go  the contents of archives, and the archives: tar.gz, for Windows zip
//	wheel.go     wheels of the Python package, so that pip installs it and the program
//	sbom.go      the modules that a program was built from, as CycloneDX
//
// The program for this machine's platform is built with the flags of the command line and with cgo, if the machine has a C compiler. The
// programs for all other platforms are plain Go. The library in wheels has the kernels in C on all platforms for which this machine has a C
// compiler. The same commit gives the same bytes if Go, the C compiler and its libraries are the same.
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platform is an operating system and a processor that the program is built for, as Go names them.
type platform struct{ system, processor string }

var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "arm64"},
	{"darwin", "amd64"},
	{"windows", "amd64"},
}

func (p platform) String() string { return p.system + "/" + p.processor }

// program returns the name of the program's file.
func (p platform) program() string {
	if p.system == "windows" {
		return "evald.exe"
	}
	return "evald"
}

// library returns the name of the library's file.
func (p platform) library() string {
	return map[string]string{"linux": "libevald.so", "darwin": "libevald.dylib", "windows": "evald.dll"}[p.system]
}

// compilers are the C compilers for platforms other than this machine's, with the Debian packages that contain them.
var compilers = map[platform]struct{ name, from string }{
	{"linux", "arm64"}:   {"aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"},
	{"windows", "amd64"}: {"x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"},
}

func main() {
	if err := run("dist", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// run builds and packs all platforms. flags are those of go build for this machine's platform.
func run(folder string, flags []string) error {
	this := platform{runtime.GOOS, runtime.GOARCH}
	if !slices.Contains(platforms, this) {
		return fmt.Errorf("this machine is %s, for which no program is built: use one of %v", this, platforms)
	}
	r, err := thisRelease()
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	built, err := os.MkdirTemp("", "evald-dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	programs, codes := map[platform]string{}, map[platform]string{} // files by platform: for archives, and for wheels
	for _, p := range platforms {
		programs[p] = filepath.Join(built, p.system, p.processor, p.program())
		fmt.Fprintf(os.Stderr, "dist: evald %s for %s\n", r.version, p)
		env, args := []string{"CGO_ENABLED=0"}, []string(nil)
		if p == this {
			env, args = nil, flags
		}
		if err := build(r, p, programs[p], env, args); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		codes[p] = programs[p]
		if env, args = asLibrary(p, p == this, flags); args != nil {
			codes[p] = filepath.Join(built, p.system, p.processor, p.library())
			if err := build(r, p, codes[p], env, args); err != nil {
				return fmt.Errorf("%s: the library: %w", p, err)
			}
		}
	}
	shared, err := sharedFiles(programs[this])
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if err := pack(folder, r, p, programs[p], codes[p], shared); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return writeChecksums(folder)
}

// release is the version and time under which a commit is published.
type release struct {
	version string    // X.Y.Z for a tag vX.Y.Z, else 0.0.0-dev+gCOMMIT; followed by .dirty if files differ from the commit
	time    time.Time // of the commit, and of all files in archives
}

// thisRelease returns the release of the checkout, from git. The variable SOURCE_DATE_EPOCH overrides its time (reproducible-builds.org).
func thisRelease() (release, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: dist needs git and a checkout", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	head, err1 := git("log", "-1", "--format=%H %ct")
	changed, err2 := git("status", "--porcelain")
	tags, err3 := git("tag", "--points-at", "HEAD", "--sort=-version:refname")
	if err := errors.Join(err1, err2, err3); err != nil {
		return release{}, err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return release{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970", seconds)
	}
	return release{versionOf(commit, strings.Fields(tags), changed != ""), time.Unix(n, 0).UTC()}, nil
}

// versionOf returns the version of a commit: the first of its tags that is a version, else one of the commit's hash.
func versionOf(commit string, tags []string, changed bool) string {
	development := "0.0.0-dev+g" + commit[:12]
	if changed {
		return development + ".dirty"
	}
	for _, tag := range tags {
		if regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(tag) {
			return tag[1:]
		}
	}
	return development
}

// asLibrary returns the environment variables and flags with which go builds the library for a platform, or no flags if there is no C compiler
// for it. this says whether it is this machine's platform, and flags are the flags of its program.
func asLibrary(p platform, this bool, flags []string) (env, args []string) {
	tags := "-tags=library"
	for _, f := range flags {
		if name, ok := strings.CutPrefix(f, "-tags="); ok && this {
			tags = "-tags=" + name + ",library"
		}
	}
	if this {
		return nil, []string{tags, "-buildmode=c-shared"}
	}
	c, known := compilers[p]
	if !known {
		return nil, nil
	}
	if _, err := exec.LookPath(c.name); err != nil {
		fmt.Fprintf(os.Stderr, "dist: %s is not there (Debian: %s): the wheel for %s has the program alone, and no Python package that works\n", c.name, c.from, p)
		return nil, nil
	}
	cflags, ldflags := "-O2 -fstack-protector-strong", "-O2"
	if p.system == "windows" {
		cflags = "-O2 -Wa,-muse-unaligned-vector-move" // gcc for Windows assumes a stack aligned to 32 bytes, but it is aligned to 16
		ldflags += " -static-libgcc"
	}
	return []string{"CGO_ENABLED=1", "CC=" + c.name, "CGO_CFLAGS=" + cflags, "CGO_LDFLAGS=" + ldflags}, []string{tags, "-buildmode=c-shared"}
}

// build builds the program for a platform. -trimpath and the empty build ID make its bytes independent of this machine's folders.
func build(r release, p platform, program string, env, flags []string) error {
	args := []string{"build", "-trimpath", "-ldflags=-s -w -buildid= -X main.release=v" + r.version, "-o", program}
	c := exec.Command("go", append(append(args, flags...), "./cmd/evald")...)
	c.Env, c.Stderr = append(append(os.Environ(), "GOOS="+p.system, "GOARCH="+p.processor), env...), os.Stderr
	return c.Run()
}

// pack writes the archive, the wheel and the list of modules of a platform.
func pack(folder string, r release, p platform, program, code string, shared []file) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("evald-%s-%s-%s", r.version, p.system, p.processor)
	if err := writeArchive(filepath.Join(folder, name), r, p, append([]file{{p.program(), 0o755, content}}, shared...)); err != nil {
		return err
	}
	bom, err := sbom(r, program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, name+".cdx.json"), bom, 0o644); err != nil {
		return err
	}
	return writeWheel(folder, r, p, code)
}

// writeChecksums writes SHA256SUMS, which sha256sum --check reads.
func writeChecksums(folder string) error {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
