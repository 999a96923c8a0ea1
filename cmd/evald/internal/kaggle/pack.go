package kaggle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
)

// Submission is the content of an archive.
type Submission struct {
	Agent   agent.Spec
	Model   string // file of the agent's network; empty without a network, or with one that ships in the program
	Book    string // file of the opening book; empty without one
	Program string // file of the program, for linux/amd64

	limit int64 // in bytes, instead of maxSize if not 0; for tests
}

// File names in the archive. main.py and the agent's spec use them.
const (
	mainFile    = "main.py"
	programFile = "evald"
	modelFile   = "model.safetensors"
	bookFile    = "opening.book"
)

//go:embed main.py
var mainSource string

// maxSize is the maximum size of an archive in bytes. It is evald's own limit, well below sizes that Kaggle is known to accept.
const maxSize = 100 << 20

// Packed describes an archive.
type Packed struct {
	Bytes  int64
	Agent  agent.Spec    // the spec with which main.py starts it
	Time   time.Duration // time of the agent's first move, including the program's start
	Linked string        // libraries that the program needs; empty if it is static
}

// Pack writes a submission as a gzipped tar archive. The same input gives the same bytes. Before the file gets its name, Pack unpacks it and
// lets its program play the first move of a game with Kaggle's times.
func Pack(ctx context.Context, s Submission, name string) (Packed, error) {
	linked, err := checkProgram(s.Program)
	if err != nil {
		return Packed{}, err
	}
	p := Packed{Agent: s.Agent, Linked: linked}
	if s.Model != "" {
		p.Agent.Model = modelFile
	}
	if s.Book != "" {
		p.Agent.Book = bookFile
	}
	file, err := durable.Create(name)
	if err != nil {
		return Packed{}, err
	}
	defer file.Abort()
	if err := s.write(file, p.Agent); err != nil {
		return Packed{}, fmt.Errorf("pack %s: %w", name, err)
	}
	info, err := file.Stat()
	if err != nil {
		return Packed{}, err
	}
	p.Bytes = info.Size()
	if limit := cmp.Or(s.limit, maxSize); p.Bytes > limit {
		return Packed{}, fmt.Errorf("pack %s: has %.1f MiB, more than the %d MiB that a submission may have", name, float64(p.Bytes)/(1<<20), limit>>20)
	}
	begin := time.Now()
	if err := tryArchive(ctx, file.Name(), p.Agent); err != nil {
		return Packed{}, fmt.Errorf("pack %s: the first move of a game: %w", name, err)
	}
	p.Time = time.Since(begin)
	return p, file.Commit()
}

// write writes the archive. To be reproducible, it has no times and no owners of files.
func (s Submission) write(w io.Writer, spec agent.Spec) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, f := range []struct {
		name, path string // files without a path are left out
		mode       int64
		content    func(path string) ([]byte, error)
	}{
		{mainFile, mainFile, 0o644, func(string) ([]byte, error) { return mainWith(spec), nil }},
		{programFile, s.Program, 0o755, readFile},
		{modelFile, s.Model, 0o644, readFile},
		{bookFile, s.Book, 0o644, readFile},
	} {
		if f.path == "" {
			continue
		}
		content, err := f.content(f.path)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// readFile reads a file of at most maxSize bytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > 4*maxSize {
		return nil, fmt.Errorf("%s has %d MiB", path, info.Size()>>20)
	}
	return os.ReadFile(path)
}

// mainWith returns main.py for an agent.
func mainWith(spec agent.Spec) []byte {
	return []byte(strings.Replace(mainSource, `"@AGENT@"`, strconv.QuoteToASCII(spec.String()), 1))
}

// tryArchive unpacks an archive into a folder beside it and lets its program play the first move. name is temporary and used by no other
// process.
func tryArchive(ctx context.Context, name string, spec agent.Spec) error {
	dir, err := filepath.Abs(name + ".unpacked")
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil { // a killed run may have left the folder
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(name, dir); err != nil {
		return err
	}
	const act, overage = 2, 60 // seconds, the same as Kaggle's
	ctx, cancel := context.WithTimeout(ctx, (act+overage+10)*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(dir, programFile), "kaggle", "act", "--agent", spec.String())
	c.Dir = dir
	c.Stdin = strings.NewReader(fmt.Sprintf(`{"observation":{"board":[0%s],"mark":1,"step":0,"remainingOverageTime":%d},"configuration":{"actTimeout":%d}}`+"\n",
		strings.Repeat(",0", game.Connect4.Cells()-1), overage, act))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, failed := c.Output()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var reply struct {
		Action *int
		Error  string
	}
	switch err := json.Unmarshal(out, &reply); {
	case err == nil && reply.Error != "":
		return errors.New(reply.Error)
	case failed != nil:
		return fmt.Errorf("%s: %w: %s", programFile, failed, strings.TrimSpace(stderr.String()))
	case err != nil || reply.Action == nil || *reply.Action < 0 || *reply.Action >= game.Connect4.Columns:
		return fmt.Errorf("%s has answered %.100q, not a move", programFile, out)
	}
	return nil
}

// unpack extracts an archive of write.
func unpack(name, dir string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	archive := tar.NewReader(zipped)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		to, err := os.OpenFile(filepath.Join(dir, filepath.Base(h.Name)), os.O_CREATE|os.O_WRONLY|os.O_EXCL, h.FileInfo().Mode())
		if err != nil {
			return err
		}
		_, err = io.Copy(to, archive)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
}
