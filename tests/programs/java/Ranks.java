// SPDX-License-Identifier: Apache-2.0
// A Java program that calls MPI through JNI: the library is loaded by the thread that runs main(),
// which is not the process's first one; others collect garbage meanwhile.
import java.util.ArrayList;
import java.util.List;

public final class Ranks {
  static native int start();
  static native long sum(long value);
  static native void finish();

  public static void main(String[] arguments) throws InterruptedException {
    System.load(arguments[0]);
    final int steps = Integer.parseInt(arguments[1]);
    final java.io.File hold = new java.io.File(System.getenv("CHECK_HOLD"));
    final int rank = start();
    long hash = 17;
    for (int step = 1; step <= steps; step++) {
      final List<long[]> garbage = new ArrayList<>();
      for (int i = 0; i < 2000; i++) garbage.add(new long[] {i, step});
      long total = 0;
      for (final long[] pair : garbage) total += pair[0] * pair[1];
      hash = hash * 31 + sum(total + rank);
      if (rank == 0) System.out.println("step " + step);
      Thread.sleep(40);
    }
    while (hold.exists()) Thread.sleep(10);
    finish();
    if (rank == 0) System.out.println("PASS " + Long.toHexString(hash));
  }
}
