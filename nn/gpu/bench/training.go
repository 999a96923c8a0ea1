//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// recordsPerFile is about the number of records in a file, of a thousand games, by kind of play.
var recordsPerFile = map[string]int{"random": 15_000, "plausible": 15_000, "openings": 2_000}

// A network sees each record twice, in batches of this many positions.
const (
	trainingBatch  = 2048
	trainingPasses = 2
)

// training is run D: exact results of random and good play from all processors, and a network that PyTorch trains on them. The network
// and its metrics are in the folder training of the results. The records are in the temporary folder; a second run resumes both. Half of
// the time is for the records; if it is over, training uses those that are complete. If a second run then has more of them, it trains another
// network, in a folder of its own, because evald resumes a training with the same records alone.
func (b *bench) training() (plan []step) {
	all := time.Until(b.end).Round(time.Second)
	records, folder := filepath.Join(b.temp, "records"), filepath.Join(b.out, "training")
	plan = append(plan, step{"training: labels", all / 2, func() {
		text, err := b.output(b.program("evald"), "positions", "-o", records, "--train", "--kinds", "random,plausible,openings",
			"--count", strconv.Itoa(b.games), "--seed", "20270101")
		b.add(row{Part: "training", Name: "labels", Error: reason(err), Result: quoted(text)})
	}})
	for _, network := range b.networks {
		part, into := all/2/time.Duration(len(b.networks)), ""
		plan = append(plan,
			step{"training: " + network, part * 3 / 4, func() {
				files, _ := filepath.Glob(filepath.Join(records, "*.parquet"))
				into = filepath.Join(folder, fmt.Sprintf("%s-%d", network, len(files)))
				b.train(network, files, into)
			}},
			step{"training: accuracy of " + network, part / 4, func() { b.accuracy(network, into) }})
	}
	return plan
}

// train trains a network on files of records. If its time is over, the network of the last minute remains.
func (b *bench) train(network string, files []string, folder string) {
	if len(files) == 0 {
		b.add(row{Part: "training", Name: network, Missing: "there are no records"})
		return
	}
	examples := 0
	for _, file := range files {
		kind, _, _ := strings.Cut(filepath.Base(file), "-")
		examples += recordsPerFile[kind] * trainingPasses
	}
	args := append([]string{b.program("evald"), "train"}, files...)
	err := b.command(nil, append(args, "--network", network, "--trainer", "torch", "--batch", strconv.Itoa(trainingBatch), "--steps", strconv.Itoa(max(1, examples/trainingBatch)),
		"--save", "1m", "-o", folder)...)
	x := row{Part: "training", Name: network, Error: reason(err), Result: lastLine(filepath.Join(folder, "metrics.jsonl"))}
	if strings.Contains(x.Error, "No module named") {
		x.Missing, x.Error = x.Error, ""
	}
	b.add(x)
}

// accuracy measures the trained network on positions of another seed.
func (b *bench) accuracy(network, folder string) {
	name, file := "accuracy of "+network, filepath.Join(folder, "network.safetensors")
	if _, err := os.Stat(file); err != nil {
		b.add(row{Part: "training", Name: name, Missing: "there is no network"})
		return
	}
	test := filepath.Join(b.temp, "test")
	_, err := b.output(b.program("evald"), "positions", "-o", test, "--count", "300", "--seed", "20270102")
	var text string
	if err == nil {
		files, _ := filepath.Glob(filepath.Join(test, "*.txt"))
		text, err = b.output(append([]string{b.program("evald"), "score", "--model", file, "--visits", "0,100", "--json"}, files...)...)
	}
	result := valid(text)
	if err == nil && result == nil {
		err = errors.New("evald score wrote no JSON")
	}
	b.add(row{Part: "training", Name: name, Error: reason(err), Result: result})
}

// quoted is a text as JSON.
func quoted(text string) json.RawMessage {
	q, err := json.Marshal(strings.TrimSpace(text))
	if err != nil {
		return nil
	}
	return q
}

// lastLine is the last line of a file of JSON lines, or nil.
func lastLine(path string) json.RawMessage {
	text, _ := os.ReadFile(path)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return valid(string(lines[len(lines)-1]))
}
