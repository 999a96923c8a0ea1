package record_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// A file of one record is written and read again.
func Example() {
	folder, err := os.MkdirTemp("", "records")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "games.parquet")

	w, err := record.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Abort()
	empty := record.Record{
		Rules: game.Connect4, Visits: []uint32{1, 2, 8, 70, 9, 6, 4}, Q: 0.4, Z: 1,
		Source: eval.CPU, Network: "mine", Weight: 1, Game: 0, Move: 4,
	}
	if err := w.Write(&empty); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil { // from here on it has its name
		log.Fatal(err)
	}

	r, err := record.Open(path) // of any number of files
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	var got record.Record
	for {
		err := r.Next(&got)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v, ply %d, by %v of %s: value %.1f, visits %v, then move %d; in the end %d\n",
			got.Rules, got.Ply, got.Source, got.Network, got.Q, got.Visits, got.Move, got.Z)
	}
	fmt.Println(r.Rows(), "record")
	// Output:
	// 7x6x4, ply 0, by cpu of mine: value 0.4, visits [1 2 8 70 9 6 4], then move 4; in the end 1
	// 1 record
}
