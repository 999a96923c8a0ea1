package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/evald/evald/engine/puzzle"
)

// loadPuzzles prepares the file of puzzles, which the page fetches when its view of puzzles is opened.
// Like load, it works once.
var loadPuzzles = sync.OnceValues(func() (file, error) {
	packed := puzzle.Shipped()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return file{}, fmt.Errorf("puzzles: %w", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return file{}, fmt.Errorf("puzzles: %w", err)
	}
	sum := sha256.Sum256(packed)
	return file{text, packed, "text/plain; charset=utf-8", hex.EncodeToString(sum[:8])}, nil
})

func (h *Handler) servePuzzles(w http.ResponseWriter, r *http.Request) error {
	h.puzzles.serve(w, r)
	return nil
}
