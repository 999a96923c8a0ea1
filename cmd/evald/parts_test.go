package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
)

func TestPartFlag(t *testing.T) {
	for text, ok := range map[string]bool{
		"0/1": true, "3/64": true, "63/64": true, "64/64": false, "-1/4": false, "1": false, "1/": false, "/4": false, "1/0": false, "1/4/2": false, "0/1000001": false,
	} {
		var p part
		err := p.UnmarshalText([]byte(text))
		if (err == nil) != ok || ok && p.String() != text || !ok && !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
}

// The sections of a file are its bytes in order, each line is whole in the section in whose share it begins, and the lines before a section
// are counted.
func TestSections(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		var text strings.Builder
		for range r.IntN(12) {
			text.WriteString(strings.Repeat("x", r.IntN(4)*r.IntN(4)*(1+r.IntN(2)*r.IntN(2)*3000)) + "\n")
		}
		text.WriteString(strings.Repeat("y", r.IntN(3)))
		all, n := text.String(), 1+r.IntN(20)
		var want []string // of each part
		for range n {
			want = append(want, "")
		}
		at := 0
		for line := range strings.SplitAfterSeq(all, "\n") {
			if line == "" {
				continue
			}
			for i := n - 1; i >= 0; i-- {
				if int64(at) >= share(int64(len(all)), i, n) {
					want[i] += line
					break
				}
			}
			at += len(line)
		}
		var got []string
		for i := range n {
			s, err := sectionOf(t.Context(), strings.NewReader(all), int64(len(all)), part{i, n})
			gametest.OK(t, err)
			got = append(got, string(gametest.Must(io.ReadAll(s))(t)))
			if before := strings.Count(strings.Join(got[:i], ""), "\n"); s.before != before {
				t.Fatalf("%d lines before part %d, want %d", s.before, i, before)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%d parts of %q:\n%s", n, all, d)
		}
	}
}

// The parts of a file, one after the other, are what one run writes, with the same numbers of lines in answers and errors.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	lines := "\ufeff# positions\n\n"
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		switch {
		case i%17 == 0:
			lines += "no position\n"
		case i%13 == 0:
			lines += "\r\n"
		default:
			lines += fmt.Sprintf("4x4x4:%d%d\n", 1+r.IntN(4), 1+r.IntN(4))
		}
	}
	in := filepath.Join(dir, "in.txt")
	putFile(t, in, lines+"4x4x4:11")
	for name, command := range map[string][]string{
		"eval":   {"eval", in, "--backend", "bitsquares"},
		"search": {"search", in, "--backend", "bitsquares", "--visits", "20"},
		"solve":  {"solve", in, "--format", "text"},
	} {
		t.Run(name, func(t *testing.T) {
			format := "jsonl"
			if name == "solve" {
				format = "text"
			}
			_, whole, _ := evald(t, "", command...)
			out := filepath.Join(dir, name)
			order := r.Perm(7)
			for _, i := range order {
				if status, text, stderr := evald(t, "", append(command, "--part", fmt.Sprintf("%d/7", i), "-o", out)...); status != exitBadInput || text != "" {
					t.Fatalf("part %d: status %d, output %q, errors %q", i, status, text, stderr)
				}
			}
			var parts strings.Builder
			for i := range 7 {
				parts.Write(gametest.Must(os.ReadFile(filepath.Join(out, fmt.Sprintf("part-%d-of-7.%s", i, format))))(t))
			}
			if d := cmp.Diff(whole, parts.String()); d != "" {
				t.Errorf("one run and seven parts:\n%s", d)
			}
			files := written(t, out)
			if status, _, stderr := evald(t, "", append(command, "--part", "3/7", "-o", out)...); status != exitOK || !strings.Contains(stderr, "part-3-of-7."+format+" is there already") {
				t.Errorf("again: status %d, errors %q", status, stderr)
			}
			if d := cmp.Diff(files, written(t, out)); d != "" {
				t.Errorf("the second time has changed files:\n%s", d)
			}
		})
	}
	parts := func(args ...string) []string {
		return slices.Concat([]string{"eval", in, "--backend", "bitsquares", "--part", "1/7", "-o", filepath.Join(dir, "eval")}, args)
	}
	refuses(t, exitBadInput, "parts.json: the run has parts 7, and now it is 8", "", parts("--part", "1/8")...)
	refuses(t, exitBadInput, "parts.json: the run has flags", "", parts("--any-position")...)
	refuses(t, exitUsage, "standard input cannot be read in parts", "", "eval", "--part", "0/2", "-o", dir)
	refuses(t, exitUsage, "must be I/N", "", "eval", in, "--part", "2/2", "-o", dir)
	refuses(t, exitUsage, "--out", "", "eval", in, "--part", "0/2")
	putFile(t, in, lines+"4x4x4:12")
	refuses(t, exitBadInput, "parts.json: the run has ends", "", parts()...)
}

// Three processes at a time answer the parts of a file, sometimes two of them the same part, and are killed at random moments. Every line
// is answered once, as in one run. With EVALD_SOAK ten million lines and twenty kills.
func TestPartsKilled(t *testing.T) {
	lines, parts, kills := 30_000, 8, int64(4)
	if gametest.Soak() {
		lines, parts, kills = 10_000_000, 64, 20
	}
	dir := t.TempDir()
	gametest.OK(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	in := gametest.Must(os.Create(filepath.Join(dir, "in.txt")))(t)
	w, r := bufio.NewWriter(in), rand.New(rand.NewPCG(8, 9))
	for range lines {
		for range 1 + r.IntN(6) { // no game is over, no column full
			w.WriteByte('1' + byte(r.IntN(7)))
		}
		w.WriteByte('\n')
	}
	gametest.OK(t, errors.Join(w.Flush(), in.Close()))
	const command = "eval in.txt --backend bitsquares "
	start := time.Now()
	if out, err := killedProgram(dir, command+"-o whole.jsonl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	longest := 100*time.Millisecond + 6*time.Since(start)/time.Duration(parts) // of a part beside two others

	var killed atomic.Int64
	var all sync.WaitGroup
	for k := range uint64(3) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(10, k))
			for i := 0; i < parts; {
				at := min((i+int(k)*r.IntN(3))%parts, parts-1) // often one that another process answers
				p := killedProgram(dir, command+fmt.Sprintf("--part %d/%d -o out", at, parts))
				if err := p.Start(); err != nil {
					t.Error(err)
					return
				}
				if killed.Load() < kills {
					kill := time.AfterFunc(time.Duration(r.Int64N(int64(longest))), func() {
						if p.Process.Kill() == nil {
							killed.Add(1)
						}
					})
					_ = p.Wait()
					kill.Stop()
				} else {
					_ = p.Wait() // another process may be writing it
				}
				if _, err := os.Stat(filepath.Join(dir, "out", (part{i, parts}).name("jsonl"))); err == nil {
					i++
				}
			}
		})
	}
	all.Wait()
	if killed.Load() < kills {
		t.Errorf("%d kills, want %d", killed.Load(), kills)
	}
	want, got := sha256.New(), sha256.New()
	whole := gametest.Must(os.Open(filepath.Join(dir, "whole.jsonl")))(t)
	defer whole.Close()
	gametest.Must(io.Copy(want, whole))(t)
	for i := range parts {
		file := gametest.Must(os.Open(filepath.Join(dir, "out", (part{i, parts}).name("jsonl"))))(t)
		gametest.Must(io.Copy(got, file))(t)
		file.Close()
	}
	if !slices.Equal(want.Sum(nil), got.Sum(nil)) {
		t.Error("the parts are not what one run has written")
	}
	t.Logf("%d lines, %d parts, %d kills", lines, parts, killed.Load())
}
