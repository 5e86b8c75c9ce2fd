package client

import (
	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// WithEncryption gives the client the keys with which it seals the last argument of jobs that ask for it (see Encrypt and
// troupe.Options.Encrypt), and opens it (see Client.Open). The daemons that run these jobs need the same:
// actors.Config.Encryption.
func WithEncryption(e troupe.Encryption) ClientOption {
	return func(c *Client) {
		crypt, err := job.NewCrypt(e)
		c.crypt = crypt
		c.fail(err)
	}
}

// Encrypt tells whether the last argument of the job of this push is sealed, so that Redis never has it in clear. It counts
// before the Encrypt of the Defaults of the job's type. Client middleware sees the argument in clear, and so does the
// digest of a unique job. A client without keys refuses the push with a *FieldError. A job without arguments has nothing to seal.
func Encrypt(on bool) Option { return func(o *options) { o.encrypt = on } }

// Open puts the last argument of p, a job as Redis has it, in clear if it is sealed: for programs that look at jobs by
// package inspect. The error is a *troupe.SealedError.
func (c *Client) Open(p *troupe.Payload) error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.crypt.Open(p)
}
