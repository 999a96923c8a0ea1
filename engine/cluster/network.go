package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evald/evald/engine/durable"
)

var sha256Name = regexp.MustCompile(`^[0-9a-f]{64}$`)

// networks is a folder of networks that all workers of a machine share. A file's name is the SHA-256 of its content.
type networks struct {
	disk  durable.FS
	dir   string
	claim *durable.File // on the network that this worker fetches
}

func (n *networks) path(name string) string { return filepath.Join(n.dir, name+".safetensors") }

// look looks for a network. If it is missing, and no other worker fetches it, this worker has the exclusive claim to it until keep or drop.
func (n *networks) look(name string) (found, another bool, err error) {
	if err := durable.MkdirAllIn(n.disk, n.dir); err != nil {
		return false, false, err
	}
	if n.has(name) {
		return true, false, nil
	}
	n.claim, err = durable.CreateIn(n.disk, n.path(name))
	if errors.Is(err, durable.ErrInUse) {
		return false, true, nil
	}
	if err != nil {
		return false, false, err
	}
	if n.has(name) { // it has just arrived
		n.drop()
		return true, false, nil
	}
	return false, false, nil
}

// has reports whether a network is present and undamaged.
func (n *networks) has(name string) bool {
	text, err := n.disk.ReadFile(n.path(name))
	return err == nil && sum(text) == name
}

// keep stores the content of the network that look did not find.
func (n *networks) keep(name string, text []byte) error {
	defer n.drop()
	if _, err := n.claim.Write(text); err != nil {
		return err
	}
	return errors.Join(n.claim.Commit(), prune(n.disk, n.dir, filepath.Base(n.path(name))))
}

// drop lets other workers fetch the network.
func (n *networks) drop() {
	if n.claim != nil {
		n.claim.Abort()
		n.claim = nil
	}
}

// mostNetworks is the maximum number of networks on a machine.
const mostNetworks = 10

// prune removes all networks but the newest, and never the one that was just stored: if the clock was set back, it is not the newest. A
// worker reads the file of its network only once.
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

func sum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }
