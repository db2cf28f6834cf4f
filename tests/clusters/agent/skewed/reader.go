// Answers each line of standard input: "clocks" by its clocks, anything else by "done" once 200 ms are over.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
	_ "unsafe"
)

//go:linkname nanotime runtime.nanotime
func nanotime() int64

func main() {
	go func() { // a timer that is always set, and work for the scheduler
		for range time.Tick(10 * time.Millisecond) {
		}
	}()
	if len(os.Args) > 1 { // nobody asks
		select {}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "clocks" {
			fmt.Println(time.Now().UnixNano(), nanotime())
			continue
		}
		if lines.Text() == "after" {
			<-time.After(200 * time.Millisecond)
		} else {
			time.Sleep(200 * time.Millisecond)
		}
		fmt.Println("done")
	}
}
