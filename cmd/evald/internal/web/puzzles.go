package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/evald/evald/engine/puzzle"
)

// puzzleFiles are the puzzles that ship, in the two encodings in which clients take them.
type puzzleFiles struct{ compressed, plain file }

// loadPuzzles prepares the file of puzzles, which the page asks for when its view of puzzles is opened.
func loadPuzzles() (puzzleFiles, error) {
	packed := puzzle.Shipped()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return puzzleFiles{}, fmt.Errorf("puzzles: %w", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return puzzleFiles{}, fmt.Errorf("puzzles: %w", err)
	}
	sum := sha256.Sum256(packed)
	tag := hex.EncodeToString(sum[:8])
	const kind = "text/plain; charset=utf-8"
	return puzzleFiles{file{packed, kind, `"` + tag + `-gzip"`}, file{text, kind, `"` + tag + `"`}}, nil
}

func (h *Handler) servePuzzles(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept-Encoding")
	if !takesGzip(r.Header.Get("Accept-Encoding")) {
		h.puzzles.plain.serve(w, r)
		return nil
	}
	w.Header().Set("Content-Encoding", "gzip")
	h.puzzles.compressed.serve(w, r)
	return nil
}

// takesGzip reports whether a client's Accept-Encoding names gzip and does not refuse it with a weight of 0.
func takesGzip(accepted string) bool {
	for coding := range strings.SplitSeq(accepted, ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) == "gzip" {
			weight, weighted := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
			return !weighted || strings.Trim(weight, "0.") != ""
		}
	}
	return false
}
