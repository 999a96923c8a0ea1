//go:build !first

package main

import (
	"errors"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/train"
)

// lesson is a game of a training run with its records, which are nil with --task gameover.
type lesson struct {
	board   *game.Board
	files   []string
	records *train.Records
}

// lessons are the games of a run, in the order of --rules.
type lessons []lesson

func (l lessons) close() (err error) {
	for _, one := range l {
		if one.records != nil {
			err = errors.Join(err, one.records.Close())
		}
	}
	return err
}

// sum adds up a number of each game's records.
func (l lessons) sum(of func(*train.Records) int64) (n int64) {
	for _, one := range l {
		if one.records != nil {
			n += of(one.records)
		}
	}
	return n
}

func (l lessons) rows() int64 { return l.sum((*train.Records).Rows) }

func (l lessons) heldOut() int64 {
	return l.sum(func(r *train.Records) int64 {
		if r.HeldOut() == nil {
			return 0
		}
		return r.HeldOut().Rows()
	})
}

func (l lessons) ignored() int64 {
	return l.sum(func(r *train.Records) int64 { return r.Ignored })
}

// lessons opens the records of each game of --rules. The caller must close them.
func (c *trainCmd) lessons(games game.Mix) (all lessons, err error) {
	for _, part := range games {
		board, err := game.NewBoard(part.Rules)
		if err != nil {
			return nil, err
		}
		all = append(all, lesson{board: board})
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, all.close())
		}
	}()
	if c.Task == "gameover" {
		return all, nil
	}
	if err := c.share(games, all); err != nil {
		return all, err
	}
	for i := range all {
		if all[i].records, err = c.records(all[i].board, all[i].files); err != nil {
			return all, err
		}
	}
	return all, nil
}

// share opens each file for the game of its first record. A single game gets all files unchecked; they are checked when they are read.
func (c *trainCmd) share(games game.Mix, all lessons) error {
	for _, file := range c.Files {
		if err := c.checkKind(file); err != nil {
			return err
		}
	}
	files, err := filesOfAll(c.source, games, c.Rules, c.Files, c.Task == "exact")
	for i := range files {
		all[i].files = files[i]
	}
	return err
}
