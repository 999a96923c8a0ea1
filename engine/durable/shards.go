package durable

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
)

// Shard is a file of records, named after the games that it holds.
type Shard struct {
	Path        string
	First, Last int // numbers of its games, from 0; Last is less than First if the name does not say them
}

// Games is how many games the file holds.
func (s Shard) Games() int { return s.Last - s.First + 1 }

// ShardName is the name of the file that holds games first to last: "games-000000-000499.parquet".
func ShardName(first, last int) string { return fmt.Sprintf("games-%06d-%06d.parquet", first, last) }

// Shards lists the files of records in a folder by their first games. Files whose names do not say which games they hold
// come last.
func Shards(dir string) ([]Shard, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "games-*.parquet"))
	if err != nil {
		return nil, err
	}
	shards := make([]Shard, len(paths))
	for i, path := range paths {
		s := Shard{Path: path}
		if _, err := fmt.Sscanf(filepath.Base(path), "games-%d-%d.parquet", &s.First, &s.Last); err != nil {
			s.First, s.Last = math.MaxInt, -1
		}
		shards[i] = s
	}
	slices.SortStableFunc(shards, func(a, b Shard) int { return cmp.Compare(a.First, b.First) })
	return shards, nil
}
