/* Generates shell completions and the OPTIONS section of the manual page from the tables of commands and options.
 * scripts/generate.sh writes them to completions/ and man/. A test fails when those files are stale. */
#ifndef ZN_CLI_GENERATE_H
#define ZN_CLI_GENERATE_H

/* Prints the completion script for a shell: bash, zsh or fish. Returns 0 for any other shell. */
int print_completions(const char *shell);

/* Prints the OPTIONS section of the manual page in roff. */
void print_manual_options(void);

#endif
