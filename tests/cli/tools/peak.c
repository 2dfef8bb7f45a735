/* peak MIB COMMAND...: runs the command and says so if it used more memory than that at any time. Exits as it did. */
#define _DEFAULT_SOURCE /* wait4 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) != child)
        return 99;
    const long mib = used.ru_maxrss / 1024;
    if (mib > atol(argv[1]))
        printf("used %ld MiB, more than %s\n", mib, argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
