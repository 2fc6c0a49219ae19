package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// quitTime is how long quit waits: replies may take drainTime, and closing the
// ledger a moment more.
const quitTime = drainTime + 5*time.Second

func (c *cli) quitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "quit", Short: "Stop the running Holdfast and wait until it has", Args: cobra.NoArgs,
		Long: "Replies under way may take up to 10 seconds to end. Exits with 3 when nothing runs.",
	}
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		b, err := c.running(ctx)
		return with(b, err, func(b *backend) error {
			if _, err := b.call(ctx, http.MethodPost, "/hf/v1/quit", nil); err != nil {
				return err
			}
			if err := b.gone(ctx, quitTime); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.out, "Holdfast has stopped.")
			return err
		})
	})
	return cmd
}

// gone waits until the process of b has given its folder back.
func (b *backend) gone(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if lock, err := lockData(b.paths); err == nil {
			return lock.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return &Fault{Code: exitFailed, What: fmt.Sprintf("process %d was told to stop and has not", b.runtime.PID),
				Hint: "look at " + b.paths.logFile() + "; end the process by its number if it hangs"}
		}
	}
}
