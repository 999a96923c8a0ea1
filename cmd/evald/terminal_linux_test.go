package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evald/evald/engine/game/gametest"
)

// terminal returns both ends of a pseudo-terminal.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person = gametest.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { person.Close() })
	gametest.OK(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number := gametest.Must(unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN))(t)
	return person, gametest.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
}

// A terminal first shows a line that says where to open the service and what evaluates, and then the log. A log in JSON has the
// configuration there too.
func TestServeTerminal(t *testing.T) {
	for form, want := range map[string]string{
		"text": `^evald: open http://127\.0\.0\.1:\d+ in a browser; gRPC at 127\.0\.0\.1:\d+; default on the (CPU, no )?GPU; Ctrl-C ends it\ntime=.* msg="?not ready any more`,
		"json": `^{"time":.*"msg":"model is ready".*}\n{"time":.*"msg":"configuration".*}\n`,
	} {
		person, program := terminal(t)
		ctx, cancel := context.WithCancel(t.Context())
		status := make(chan int, 1)
		go func() {
			defer program.Close()
			args := strings.Fields("serve --http 127.0.0.1:0 --grpc 127.0.0.1:0 --metrics= --model default --log " + form)
			status <- run(ctx, args, streams{strings.NewReader(""), io.Discard, program})
		}()
		var shown strings.Builder
		for lines := bufio.NewScanner(person); lines.Scan(); { // until the program has closed its end
			fmt.Fprintln(&shown, lines.Text())
			if strings.Contains(lines.Text(), "127.0.0.1") {
				cancel()
			}
		}
		if s := <-status; s != exitOK || !regexp.MustCompile(want).MatchString(shown.String()) || strings.Contains(shown.String(), "libcuda.so") {
			t.Errorf("%s: status %d, the terminal shows\n%s", form, s, shown.String())
		}
		cancel()
	}
}

// On a terminal that only shows lines the game is played line by line, and elsewhere on the whole screen.
func TestPlayTerminal(t *testing.T) {
	const over = "the program has ended"
	for name, full := range map[string]bool{"dumb": false, "xterm-256color": true} {
		t.Setenv("TERM", name)
		person, program := terminal(t)
		gametest.OK(t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
		status := make(chan int, 1)
		go func() {
			status <- run(t.Context(), strings.Fields("play --side both --evaluate bitsquares --position 44"), streams{program, program, io.Discard})
			fmt.Fprint(program, over) // the program's end of the terminal stays open while it waits for input
		}()
		key := "quit\n"
		if full {
			key = "q"
		}
		var shown strings.Builder
		for buffer := make([]byte, 1<<16); !strings.Contains(shown.String(), over); {
			n := gametest.Must(person.Read(buffer))(t)
			if shown.Write(buffer[:n]); key != "" && strings.Contains(shown.String(), "X to move") {
				gametest.Must(io.WriteString(person, key))(t)
				key = ""
			}
		}
		if s := <-status; s != exitOK || strings.Contains(shown.String(), "\x1b[?1049h") != full || !strings.Contains(shown.String(), "go on    evald play --side both --evaluate bitsquares --position 7x6x4:44") {
			t.Errorf("TERM=%s: status %d, the terminal shows\n%q", name, s, shown.String())
		}
	}
}
