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

// networks is a folder of networks that all workers on a machine share. A file's name is the SHA-256 of its content.
type networks struct {
	disk  durable.FS
	dir   string
	claim *durable.File // claim to the network that this worker fetches
}

func (n *networks) path(name string) string { return filepath.Join(n.dir, name+".safetensors") }

// look looks for a network in the folder. If the network is missing and no other worker fetches it, this worker has the exclusive claim to
// it until keep or drop.
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
	if n.has(name) { // it has arrived since
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

// keep stores the content of a network that this worker has claimed.
func (n *networks) keep(name string, text []byte) error {
	defer n.drop()
	if _, err := n.claim.Write(text); err != nil {
		return err
	}
	return errors.Join(n.claim.Commit(), prune(n.disk, n.dir, filepath.Base(n.path(name))))
}

// drop gives up the claim, so that other workers can fetch the network.
func (n *networks) drop() {
	if n.claim != nil {
		n.claim.Abort()
		n.claim = nil
	}
}

// mostNetworks is the maximum number of networks on a machine.
const mostNetworks = 10

// prune removes all networks but the newest. It never removes the one that was stored last, which may have an older time if the clock was
// set back. It may remove networks in use, because a worker reads its network's file only once.
func prune(disk durable.FS, dir, just string) error {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".safetensors") && e.Name() != just { // otherwise another worker has removed it
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
