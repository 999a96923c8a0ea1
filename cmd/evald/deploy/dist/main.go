// Command dist writes all files of a release into the folder dist, on one machine for all systems. make dist runs it in the root of the
// repository:
//
//	main.go      the platforms, the version, the builds, the checksums
//	zigcc.sh     the C compiler of other systems and of old C libraries
//	contents.go  the contents of archives, and the archives: tar.gz, for Windows zip
//	wheel.go     the Python package: wheels, the source distribution, and the trial of what this machine can run
//	sbom.go      the modules that a program was built from, as CycloneDX
//
// Zig compiles the C code for Linux and Windows, because it has the headers and libraries of all of them, and
// glibc as old as is wanted. For macOS it lacks the frameworks that a library of Go needs, so that the
// program is plain Go there and the wheel has it in place of the library. The same commit gives the
// same bytes if Go and Zig are the same.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
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

// targets are what Zig calls the platforms that it compiles C code for, besides this machine's. The C
// library of Linux is the oldest for which wheels have a tag of this form.
var targets = map[platform]string{
	{"linux", "arm64"}:   "aarch64-linux-gnu.2.17",
	{"windows", "amd64"}: "x86_64-windows-gnu",
}

func main() {
	python := flag.String("python", "python3", "a Python with hatchling, numpy and ziglang")
	flag.Parse()
	if err := run("dist", *python, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// run builds and packs all platforms. python is a Python with hatchling, numpy and Zig, and flags are those of go build for this machine's
// platform.
func run(folder, python string, flags []string) error {
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
		fmt.Fprintf(os.Stderr, "dist: evald %s for %s\n", r.version, p)
		env, args := compiler(python, p), []string(nil)
		if p == this {
			env, args = nil, flags
		}
		args = tagged(args, "page") // with the engine for browsers, which make dist has built
		programs[p] = filepath.Join(built, p.system, p.processor, p.program())
		if err := build(r, p, programs[p], env, args); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		codes[p] = programs[p]
		if p == this || targets[p] != "" {
			codes[p] = filepath.Join(built, p.system, p.processor, p.library())
			if err := build(r, p, codes[p], env, asLibrary(args)); err != nil {
				return fmt.Errorf("%s: the library: %w", p, err)
			}
		}
	}
	shared, err := sharedFiles(programs[this])
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if err := pack(folder, r, p, programs[p], shared); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		wheel, err := writeWheel(folder, python, r, p, codes[p])
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		tried := "not tried: this machine is " + this.String()
		if p == this {
			if tried, err = try(wheel, python); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(wheel), err)
			}
		}
		fmt.Fprintf(os.Stderr, "dist: %s: %s\n", filepath.Base(wheel), tried)
	}
	if err := writeSource(folder, python, r); err != nil {
		return err
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

// compiler returns the variables with which go builds for another platform: with C code compiled by Zig, or as plain Go.
func compiler(python string, p platform) []string {
	if targets[p] == "" {
		return []string{"CGO_ENABLED=0"}
	}
	zigcc, _ := filepath.Abs("cmd/evald/deploy/dist/zigcc.sh") // the root of the repository is the working directory
	return []string{"CGO_ENABLED=1", "CC=" + zigcc + " " + python + " " + targets[p], "CGO_CFLAGS=-O2 -fstack-protector-strong", "CGO_LDFLAGS=-O2"}
}

// asLibrary returns the flags of go build for the library, from those for the program.
func asLibrary(flags []string) []string {
	flags = slices.DeleteFunc(tagged(flags, "library"), func(f string) bool { return !strings.HasPrefix(f, "-tags=") })
	return append(flags, "-buildmode=c-shared")
}

// tagged returns flags of go build with another tag.
func tagged(flags []string, tag string) []string {
	for i, f := range flags {
		if strings.HasPrefix(f, "-tags=") {
			flags = slices.Clone(flags)
			flags[i] += "," + tag
			return flags
		}
	}
	return append(slices.Clip(flags), "-tags="+tag)
}

// build builds the program for a platform. -trimpath and the empty build ID make its bytes independent of this machine's folders.
func build(r release, p platform, program string, env, flags []string) error {
	args := []string{"build", "-trimpath", "-ldflags=-s -w -buildid= -X main.release=v" + r.version, "-o", program}
	c := exec.Command("go", append(append(args, flags...), "./cmd/evald")...)
	c.Env, c.Stderr = append(append(os.Environ(), "GOOS="+p.system, "GOARCH="+p.processor), env...), os.Stderr
	return c.Run()
}

// pack writes the archive and the list of modules of a platform.
func pack(folder string, r release, p platform, program string, shared []file) error {
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
	return os.WriteFile(filepath.Join(folder, name+".cdx.json"), bom, 0o644)
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
