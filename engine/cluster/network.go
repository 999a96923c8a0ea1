package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/selfplay"
)

var sha256Name = regexp.MustCompile(`^[0-9a-f]{64}$`)

// fetch returns the file of a network in a folder that all workers of a machine share. The first one gets it by download, and
// the others wait for it. The content is compared with the name, which is its SHA-256.
func fetch(ctx context.Context, disk durable.FS, download func(context.Context) ([]byte, error), name, dir string) (path string, err error) {
	if !sha256Name.MatchString(name) {
		return "", fmt.Errorf("network %.80q: want a SHA-256", name)
	}
	if err := durable.MkdirAllIn(disk, dir); err != nil {
		return "", err
	}
	path = filepath.Join(dir, name+".safetensors")
	for {
		if text, err := disk.ReadFile(path); err == nil && sum(text) == name {
			return path, nil
		}
		file, err := durable.CreateIn(disk, path)
		if errors.Is(err, durable.ErrInUse) { // another worker gets it
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(100 * time.Millisecond):
				continue
			}
		}
		if err != nil {
			return "", err
		}
		text, err := disk.ReadFile(path) // it may have come just now
		if err == nil && sum(text) == name {
			file.Abort()
			return path, nil
		}
		if text, err = download(ctx); err == nil {
			if got := sum(text); got != name {
				err = fmt.Errorf("what came has SHA-256 %s", got)
			}
		}
		if err == nil {
			_, err = file.Write(text)
		}
		if err != nil {
			file.Abort()
			return "", fmt.Errorf("network %s: %w", name, err)
		}
		return path, errors.Join(file.Commit(), prune(disk, dir, filepath.Base(path)))
	}
}

// mostNetworks is how many networks a machine keeps.
const mostNetworks = 10

// prune removes all networks but the newest, and never the one that has just come: if the clock was set back, it is not the
// newest. A worker reads the file of its network once.
func prune(disk durable.FS, dir, just string) error {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".safetensors") && e.Name() != just { // or another worker has removed it
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, f := range files[min(mostNetworks-1, len(files)):] {
		if err := disk.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// mostBytes is the size of the greatest network that a worker takes.
const mostBytes = 1 << 30

// download asks the learner for a job's network, part by part.
func (w *worker) download(ctx context.Context, j job) ([]byte, error) {
	if j.Bytes < 1 || j.Bytes > mostBytes {
		return nil, fmt.Errorf("it has %d bytes, want 1 to %d", j.Bytes, mostBytes)
	}
	var text []byte
	for len(text) < j.Bytes {
		q, err := json.Marshal(request{Version: w.o.Version, Worker: w.name, Network: j.Network, From: len(text)})
		if err != nil {
			return nil, err
		}
		m, err := w.conn.RequestWithContext(ctx, networkSubject, q)
		if err != nil {
			return nil, err
		}
		if len(m.Data) == 0 {
			return nil, errors.New("the learner has another network now")
		}
		text = append(text, m.Data...)
	}
	return text, nil
}

func sum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// player is the evaluator of the network that a worker played with last.
type player struct {
	evaluator *eval.Evaluator
	name      string // Config.Network
	sha256    string
	done      func()
}

// open opens the evaluator of a job's network, unless it is open. The network must come until ctx ends.
func (p *player) open(ctx context.Context, w *worker, j job) error {
	if p.evaluator != nil && p.name == j.Config.Network && p.sha256 == j.Network {
		return nil
	}
	file := ""
	if j.Network != "" {
		var err error
		download := func(ctx context.Context) ([]byte, error) { return w.download(ctx, j) }
		if file, err = fetch(ctx, w.home, download, j.Network, filepath.Join(w.o.Dir, "networks")); err != nil {
			return err
		}
	}
	e, done, err := w.o.Evaluator(file, j.Config.Network, j.Config.Path)
	if err != nil {
		return err
	}
	p.close()
	*p = player{selfplay.Remember(e, j.Config.Network, selfplay.Remembered), j.Config.Network, j.Network, done}
	return nil
}

func (p *player) close() {
	if p.done != nil {
		p.done()
		p.done = nil
	}
}
