// Package only64 keeps the packages that import it from being built for a 32-bit
// platform: there the registry of the actor library computes a negative index for
// the first unlucky name, and panics. It is a package of its own since it has no imports, so that
// the compiler gets to it first. Packages that only push jobs do not need it.
package only64
