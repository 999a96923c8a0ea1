package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// boardsOf parses the games of --rules.
func boardsOf(text string) (game.Mix, []*game.Board, error) { return boardsIn("rules", text) }

// boardsIn parses the games of a flag, and returns a board for each.
func boardsIn(flag, text string) (game.Mix, []*game.Board, error) {
	mix, err := game.ParseMix(text)
	if err != nil {
		return nil, nil, usage("--%s: %w", flag, err)
	}
	boards := make([]*game.Board, len(mix))
	for i, part := range mix {
		if boards[i], err = game.NewBoard(part.Rules); err != nil {
			return nil, nil, usage("--%s: %w", flag, err)
		}
	}
	return mix, boards, nil
}

// folderOf returns the folder of a game, which may be one of a bucket: out itself if there is only one game or out is "", else the
// subfolder with the game's name.
func folderOf(mix game.Mix, out string, r game.Rules) string {
	if len(mix) == 1 || out == "" {
		return out
	}
	if isBucket(out) {
		return strings.TrimSuffix(out, "/") + "/" + r.String()
	}
	return filepath.Join(out, r.String())
}

// filesOf assigns each file of records, or of exact scores, to the game of its first record or line, and returns the files of each game of
// mix. text is the value of --rules, for errors. A single game gets all files unchecked; they are checked when they are read.
func filesOf(from durable.FS, mix game.Mix, text string, files []string, exactScores bool) ([][]string, error) {
	of := make([][]string, len(mix))
	if len(mix) == 1 {
		of[0] = files
		return of, nil
	}
	for _, file := range files {
		rules, err := rulesOf(from, file, exactScores)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(mix, func(p game.Part) bool { return p.Rules == rules })
		if at < 0 {
			return nil, fmt.Errorf("%s: is of %v, and --rules is %s: leave the file out, or give the game a share", file, rules, text)
		}
		of[at] = append(of[at], file)
	}
	return of, nil
}

// filesOfAll is filesOf, except that a game without a file is an error.
func filesOfAll(from durable.FS, mix game.Mix, text string, files []string, exactScores bool) ([][]string, error) {
	of, err := filesOf(from, mix, text, files, exactScores)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(of, func(files []string) bool { return len(files) == 0 }); at >= 0 {
		return nil, fmt.Errorf("--rules %s: no file has records of %v: give some, or leave the game out", text, mix[at].Rules)
	}
	return of, nil
}

// rulesOf returns the rules of a file's first record.
func rulesOf(from durable.FS, file string, exactScores bool) (rules game.Rules, err error) {
	var r interface {
		Next(*record.Record) error
		Close() error
	}
	if exactScores {
		r, err = record.OpenSolved(file)
	} else {
		r, err = record.OpenIn(from, file)
	}
	if err != nil {
		return rules, err
	}
	var first record.Record
	if err := errors.Join(r.Next(&first), r.Close()); err != nil {
		return rules, fmt.Errorf("%s: its first record: %w", file, err)
	}
	return first.Rules, nil
}
