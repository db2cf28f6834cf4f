/* Answers each line of standard input: "clocks" by its clocks, anything else by "done" once 200 ms are over by
   sleeping (span), on a condition variable until a wall time (wall) or a monotonic time (mono). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void until(clockid_t clock) {
    pthread_condattr_t attributes;
    pthread_cond_t condition;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec deadline;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&condition, &attributes);
    clock_gettime(clock, &deadline);
    deadline.tv_nsec += 200000000;
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&condition, &mutex, &deadline) == 0) {
    }
}

int main(void) {
    char line[64];
    setvbuf(stdin, NULL, _IONBF, 0); /* what follows a line is for the program that is executed */
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "clocks\n") == 0) {
            printf("%lld %lld\n", now(CLOCK_REALTIME), now(CLOCK_MONOTONIC));
        } else if (strcmp(line, "others\n") == 0) {
            struct timeval day;
            struct timezone zone;
            time_t seconds, again = time(&seconds);
            gettimeofday(&day, &zone);
            printf("%lld %lld %lld %lld %d\n", (long long)day.tv_sec * 1000000 + day.tv_usec, (long long)seconds,
                   (long long)again, now(CLOCK_REALTIME_COARSE), clock_gettime(77, &(struct timespec){0}));
        } else if (strcmp(line, "fork\n") == 0) {
            fflush(stdout);
            if (fork() == 0) {
                printf("%lld %lld\n", now(CLOCK_REALTIME), now(CLOCK_MONOTONIC));
                fflush(stdout);
                _exit(0);
            }
            wait(NULL);
        } else if (strcmp(line, "exec\n") == 0) {
            fflush(stdout);
            execl("/proc/self/exe", "again", (char *)NULL);
        } else if (strcmp(line, "spin\n") == 0) {
            for (long long end = now(CLOCK_MONOTONIC) + 300000000; now(CLOCK_MONOTONIC) < end;) {
            }
            puts("done");
        } else {
            if (strcmp(line, "wall\n") == 0) {
                until(CLOCK_REALTIME);
            } else if (strcmp(line, "mono\n") == 0) {
                until(CLOCK_MONOTONIC);
            } else {
                usleep(200000);
            }
            puts("done");
        }
        fflush(stdout);
    }
    return 0;
}
