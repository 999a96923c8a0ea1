package main

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/game/gametest"
)

const root = "../.."

// block is what stands between two fences of a document: ```sh and ```.
type block struct {
	language, text string
	line           int // of the first line of the text, from 1
}

// blocks are those of a document.
func blocks(t *testing.T, path string) []block {
	t.Helper()
	var all []block
	var open *block
	number := 0
	for line := range strings.Lines(string(getFile(t, path))) {
		number++
		language, fence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case fence && open == nil:
			open = &block{language: language, line: number + 1}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", path, open.line)
	}
	return all
}

// shown is a command of a shell block, with the lines of its output that the document shows.
type shown struct {
	text  string
	shows []string
	line  int
}

// shellCommands are those of a shell block. A line that begins with # is from the output of the command above it, and an
// indented line continues the command.
func shellCommands(b block) []shown {
	var all []shown
	for i, line := range strings.Split(strings.TrimRight(b.text, "\n"), "\n") {
		show, output := strings.CutPrefix(line, "# ")
		last := len(all) - 1
		switch {
		case output:
			all[last].shows = append(all[last].shows, show)
		case strings.HasPrefix(line, " "):
			all[last].text += "\n" + line
		default:
			all = append(all, shown{text: line, line: b.line + i})
		}
	}
	return all
}

var (
	decimal = regexp.MustCompile(`-?\d+\.\d+`)
	space   = regexp.MustCompile(`\s+`)
)

// showsLine says whether an output has a line that a document shows: ... stands for anything, blanks for any blanks, and a number
// with a decimal point for every number that is about the same, since processors round differently.
func showsLine(output, line string) bool {
	var pattern strings.Builder
	var want []float64
	pattern.WriteString(`(?m)^\s*`)
	last := 0
	literal := func(s string) {
		for i, part := range strings.Split(s, "...") {
			if i > 0 {
				pattern.WriteString(`.*`)
			}
			pattern.WriteString(space.ReplaceAllString(regexp.QuoteMeta(part), `[ \t]+`))
		}
	}
	for _, at := range decimal.FindAllStringIndex(line, -1) {
		literal(line[last:at[0]])
		x, err := strconv.ParseFloat(line[at[0]:at[1]], 64)
		if err != nil {
			panic(err) // it is a decimal by the expression above
		}
		want = append(want, x)
		pattern.WriteString(`(-?\d+(?:\.\d+)?(?:e-\d+)?)`)
		last = at[1]
	}
	literal(line[last:])
	pattern.WriteString(`\s*$`)
	for _, found := range regexp.MustCompile(pattern.String()).FindAllStringSubmatch(output, -1) {
		same := true
		for i, x := range want {
			y, err := strconv.ParseFloat(found[i+1], 64)
			same = same && err == nil && math.Abs(x-y) <= 0.01+0.01*math.Abs(x)
		}
		if same {
			return true
		}
	}
	return false
}

// instead are commands of the documents, and what the test runs in their place. There is a program already, and test_install.py of the
// Python package installs it. What measures takes 12 s of a processor, so that it runs as it stands with EVALD_SOAK alone; TestBench and
// package bench test it. The two trainings on tic-tac-toe, of 2 s each, are shorter without it.
var instead = map[string]string{
	"make build": "",
	"git clone https://github.com/evald/evald && cd evald":                                  "",
	"python3 -m venv env && . env/bin/activate":                                             "",
	`pip install "git+https://github.com/evald/evald#subdirectory=cmd/evald/client/python"`: "",
	"bin/evald bench search --round 1ms; bin/evald bench selfplay --backend bitsquares --round 1ms; bin/evald bench serve --round 1ms; bin/evald bench solve": "bin/evald bench solve",
	"bin/evald mcp --http 127.0.0.1:8000 --tokens tokens --backend bitsquares &":                                                                              "bin/evald mcp --http 127.0.0.1:0 --tokens tokens --backend bitsquares &",
	"bin/evald train -o first games1/*.parquet --rules 3x3x3free --network 1x32 --heuristics \\\n    --steps 200 --batch 128 --lr 0.01":                       "bin/evald train -o first games1/*.parquet --rules 3x3x3free --network 1x32 --heuristics --steps 20 --batch 128 --lr 0.01",
	"bin/evald train -o second games2/*.parquet --rules 3x3x3free --network 1x32 \\\n    --init first/network.safetensors --steps 200 --batch 128 --lr 0.01":  "bin/evald train -o second games2/*.parquet --rules 3x3x3free --network 1x32 --init first/network.safetensors --steps 20 --batch 128 --lr 0.01",
}

// reader is somebody who follows a document in a new folder. The program's services listen on free ports, and the reader asks there.
type reader struct {
	t      *testing.T
	path   string // of the document
	folder string
	env    []string
	ports  []string // pairs for strings.NewReplacer: an address in the document and its replacement here
	stops  []func() // end the services that run
}

func newReader(t *testing.T, path string) *reader {
	r := &reader{t: t, path: path, folder: t.TempDir()}
	program := filepath.Join(r.folder, "bin", "evald")
	gametest.OK(t, os.Mkdir(filepath.Dir(program), 0o755))
	r.env = append(os.Environ(), "EVALD_MODELS="+filepath.Join(r.folder, "models"),
		"EVALD_HTTP=127.0.0.1:0", "EVALD_GRPC=127.0.0.1:0", "EVALD_METRICS=127.0.0.1:0", "EVALD_LISTEN=127.0.0.1:0")
	built := os.Getenv("EVALD_PROGRAM")
	if built == "" { // this test is the program too
		var err error
		if built, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
		r.env = append(r.env, asProgram+"=1")
	}
	gametest.OK(t, os.Symlink(built, program))
	return r
}

// process is a command in the reader's folder.
func (r *reader) process(name string, args ...string) *exec.Cmd {
	p := exec.Command(name, args...)
	p.Dir, p.Env = r.folder, r.env
	return p
}

// follow runs a command and compares its output. One that ends with & runs until stop.
func (r *reader) follow(c shown) {
	r.t.Helper()
	text := strings.NewReplacer(r.ports...).Replace(c.text)
	var output string
	if service, ok := strings.CutSuffix(text, " &"); ok {
		output = r.start(service, c.shows)
	} else {
		out, err := r.process("bash", "-euo", "pipefail", "-c", text).CombinedOutput()
		if output = string(out); err != nil {
			r.t.Errorf("%s:%d: %s: %v\n%s", r.path, c.line, text, err, output)
		}
	}
	for _, line := range c.shows {
		if !showsLine(output, line) {
			r.t.Errorf("%s:%d: %s: does not show\n%s\nbut\n%s", r.path, c.line, text, line, output)
		}
	}
}

// stop ends the services, the last first.
func (r *reader) stop() {
	for _, stop := range slices.Backward(r.stops) {
		stop()
	}
	r.stops = nil
}

// start runs a service until stop, and gives what it has said when it has said all that the document shows.
func (r *reader) start(text string, shows []string) string {
	r.t.Helper()
	p := r.process("bash", "-c", "exec "+text)
	said, err := p.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.stops = append(r.stops, func() {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			r.t.Error(err)
		}
		if err := p.Wait(); err != nil && p.ProcessState.ExitCode() != exitInterrupted {
			r.t.Errorf("%s: %v", text, err)
		}
	})
	late := time.AfterFunc(time.Minute, func() { _ = said.Close() })
	defer late.Stop()
	var output string
	for lines := bufio.NewReader(said); ; {
		line, err := lines.ReadString('\n')
		output += line
		if !slices.ContainsFunc(shows, func(s string) bool { return !showsLine(output, s) }) {
			break
		}
		if err != nil {
			r.t.Fatalf("%s: %v after\n%s", text, err, output)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	for _, m := range regexp.MustCompile(`\b(http|grpc)=(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(output, -1) {
		r.ports = append(r.ports, map[string]string{"http": "127.0.0.1:8000", "grpc": "127.0.0.1:8001"}[m[1]], m[2])
	}
	return output
}

var printed = regexp.MustCompile(`(?m)^print\(.*\)  # (.+)$`)

// Every shell command of the documents runs in a new folder, in the order in which it stands there, and its output has the lines that the
// document shows. The Python code of README runs where EVALD_PYTHON names a Python with numpy and EVALD_LIBRARY the library. The Go code is part of an
// example, which go test compiles and runs. What else stands in a block is text.
func TestReadme(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("README is for linux/amd64, as archives for Kaggle are")
	}
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	for _, document := range []struct {
		path     string
		commands int // at least
	}{{filepath.Join(root, "README.md"), 8}, {"README.md", 25}, {"guides/serve.md", 5}, {"guides/train.md", 5}, {"guides/network.md", 1}, {"guides/tictactoe.md", 25}, {"guides/python.md", 0}, {"guides/alphazero.md", 0}, {"guides/go.md", 0}, {"guides/mcp.md", 2}} {
		r := newReader(t, document.path)
		t.Cleanup(r.stop)
		ran := 0
		for _, b := range blocks(t, document.path) {
			switch b.language {
			case "sh":
				ran += r.shell(b)
			case "python":
				r.python(b)
			case "go":
				if !inExample(t, b.text) {
					t.Errorf("%s:%d: this Go code is in no example", r.path, b.line)
				}
			case "", "text", "yaml":
			case "python torch": // which test_lab.py of the package runs in make soak
			default:
				t.Errorf("%s:%d: a block of %q is neither run nor text", r.path, b.line, b.language)
			}
		}
		r.pictures()
		if ran < document.commands {
			t.Errorf("%s: only %d commands were run", r.path, ran)
		}
		r.stop()
	}
}

// shell runs the commands of a block and returns their number.
func (r *reader) shell(b block) (ran int) {
	r.t.Helper()
	r.stop() // Python below a block may ask its services, and nothing else does
	for _, c := range shellCommands(b) {
		if text, ok := instead[c.text]; ok && (text == "" || !gametest.Soak()) {
			c.text = text
		}
		if c.text != "" {
			r.follow(c)
			ran++
		}
	}
	return ran
}

var picture = regexp.MustCompile(`!\[[^\]]*\]\(([^)]+)\)`)

// pictures compares the pictures that a document shows with those of these names that its commands have drawn.
func (r *reader) pictures() {
	r.t.Helper()
	for _, m := range picture.FindAllStringSubmatch(string(getFile(r.t, r.path)), -1) {
		drawn, err := os.ReadFile(filepath.Join(r.folder, m[1]))
		if err == nil && !bytes.Equal(drawn, getFile(r.t, filepath.Join(filepath.Dir(r.path), m[1]))) {
			r.t.Errorf("%s: %s is not the picture that its command draws: copy that", r.path, m[1])
		}
	}
}

// python runs a block of Python.
func (r *reader) python(b block) {
	r.t.Helper()
	python, library := os.Getenv("EVALD_PYTHON"), os.Getenv("EVALD_LIBRARY")
	if python == "" || library == "" {
		r.t.Logf("%s:%d: EVALD_PYTHON names no Python (see .ci/requirements.txt), or EVALD_LIBRARY no library (make library)", r.path, b.line)
		return
	}
	p := r.process(python, "-c", strings.NewReplacer(r.ports...).Replace(b.text))
	p.Env = append(slices.Clone(p.Env), "EVALD_LIBRARY="+library, "PYTHONPATH="+gametest.Must(filepath.Abs("client/python"))(r.t))
	out, err := p.CombinedOutput()
	if err != nil {
		r.t.Errorf("%s:%d: %v\n%s", r.path, b.line, err, out)
	}
	for _, m := range printed.FindAllStringSubmatch(b.text, -1) {
		if !showsLine(string(out), m[1]) {
			r.t.Errorf("%s:%d: does not show %s but\n%s", r.path, b.line, m[1], out)
		}
	}
}

// inExample says whether code stands in an example of the module, whatever its indentation there.
func inExample(t *testing.T, code string) bool {
	flat := func(s string) string { return strings.TrimSpace(space.ReplaceAllString(s, " ")) }
	return slices.ContainsFunc(files(t, "_test.go"), func(path string) bool {
		return strings.Contains(filepath.Base(path), "example") && strings.Contains(flat(string(getFile(t, path))), flat(code))
	})
}

// README is short, and each of its readers finds how to install evald. The page of the command line has an example of every command.
func TestReadmeWhole(t *testing.T) {
	text := getFile(t, filepath.Join(root, "README.md"))
	for heading, words := range map[string][]string{
		"Python":                {"pip install ./cmd/evald/client/python", "Go 1.26"},
		"Service":               {"make build", "Go 1.26"},
		"Training":              {"make build"},
		"Other ways to install": {"make dist", "go install", "thirty times slower"},
	} {
		_, section, _ := strings.Cut(string(text), "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, word := range words {
			if !strings.Contains(section, word) {
				t.Errorf("the section %s of README.md does not say %q", heading, word)
			}
		}
	}
	if lines := strings.Count(string(text), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, want at most 150", lines)
	}
	shell := ""
	for _, b := range blocks(t, "README.md") {
		if b.language == "sh" {
			shell += b.text
		}
	}
	commands(t, func(path []string, node *kong.Node) {
		if name := strings.Join(path, " "); !node.Hidden && !regexp.MustCompile(`bin/evald `+name+`\b`).MatchString(shell) {
			t.Errorf("cmd/evald/README.md has no example of evald %s", name)
		}
	})
}

// files are the module's with this ending, but for those that git would not keep.
func files(t *testing.T, ending string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (name == "bin" || name == "node_modules" || strings.HasPrefix(name, ".") && name != ".ci") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ending) {
			all = append(all, path)
		}
		return nil
	})
	gametest.OK(t, err)
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
)

// Every relative link of every document leads to an existing file, and to an existing heading where it names one.
func TestLinks(t *testing.T) {
	links := 0
	for _, document := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(getFile(t, document)), ""), -1) {
			if regexp.MustCompile(`^[a-z]+:`).MatchString(m[1]) {
				continue // elsewhere
			}
			links++
			name, fragment, _ := strings.Cut(m[1], "#")
			target := document
			if name != "" {
				target = filepath.Join(filepath.Dir(document), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", document, m[1], err)
			} else if fragment != "" && !slices.Contains(anchors(t, target), fragment) {
				t.Errorf("%s: link to %s: no such heading", document, m[1])
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d links were found", links)
	}
}

// anchors are the names by which links lead to the headings of a document, as GitHub makes them.
func anchors(t *testing.T, document string) []string {
	t.Helper()
	var all []string
	for _, m := range heading.FindAllStringSubmatch(string(getFile(t, document)), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// Every flag that a document names is one of evald's, or of a program that is known here.
func TestFlagsOfDocuments(t *testing.T) {
	known := map[string]bool{"--no-deps": true, "--logdir": true, "--input-data": true, "--concurrency-range": true, "--from-file": true} // of other programs
	commands(t, func(_ []string, node *kong.Node) {
		for _, f := range slices.Concat(node.AllFlags(false)...) {
			for _, name := range append(f.Aliases, f.Name) {
				known["--"+name] = true
			}
		}
	})
	flags := 0
	for _, document := range files(t, ".md") {
		for _, m := range regexp.MustCompile("(?m)(?:^|[\\s`(\"|])(--[a-z][a-z0-9-]*)").FindAllStringSubmatch(string(getFile(t, document)), -1) {
			flags++
			if !known[m[1]] {
				t.Errorf("%s: no command has %s", document, m[1])
			}
		}
	}
	if flags < 50 {
		t.Errorf("only %d flags were found", flags)
	}
}
